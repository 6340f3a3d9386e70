package nic

import (
	"fmt"

	"github.com/farwire/farwire/rdma/work"
)

// Rooms counts what the rings of queue pairs may leave in a completion queue, so
// that it can never overflow. The completion queue's lock guards it.
type Rooms struct {
	Size   uint32 // completions that the queue holds
	used   uint32
	rings  int // attached and alive
	closed bool
}

// Attach counts n rooms of a ring.
func (r *Rooms) Attach(n uint32) error {
	switch {
	case r.closed:
		return work.ErrQueueClosed
	case n > r.Size-r.used:
		return fmt.Errorf("%w: %d more in %d of %d", work.ErrQueueFull, n, r.used, r.Size)
	}
	r.used += n
	r.rings++
	return nil
}

// Detach undoes Attach once no completion of the ring can come any more.
func (r *Rooms) Detach(n uint32) {
	r.rings--
	r.used -= n
}

// Abandon ends the use of the queue by a ring whose completions may still come: its
// rooms stay counted.
func (r *Rooms) Abandon() { r.rings-- }

// Left is how many rooms are not counted.
func (r *Rooms) Left() int { return int(r.Size - r.used) }

// Closed reports whether Close was called, and succeeded.
func (r *Rooms) Closed() bool { return r.closed }

// Close is work.ErrQueueBusy while rings are attached. first is false if the queue
// was closed before.
func (r *Rooms) Close() (first bool, err error) {
	switch {
	case r.closed:
		return false, nil
	case r.rings > 0:
		return false, work.ErrQueueBusy
	}
	r.closed = true
	return true, nil
}
