package qp

import (
	"sync"

	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/work"
)

// receiver is the receive ring.
type receiver struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	free   uint32     // receives that fit at least; 0 while err is set
	ledger *ledger.Receives
	bounds nic.Bounds
	ring   [][2]uint64 // in units, in memory order; a power of two
	stride uint32      // units of a receive, a power of two
	record *uint32
}

// Receive posts a receive of a message of up to the bytes of all segments of
// into, which it fills in order. No segments are a receive of a message of no
// bytes, and for the peer's WriteImm, which needs no memory. The NIC may fill it
// as soon as Receive returns, with the next message of the peer that no earlier
// receive took; there is nothing to ring. The memory must stay registered until
// the receive completes. It returns one of this package's errors or
// region.ErrRange, and has then done nothing. Safe for concurrent use; it does
// not allocate.
func (p *Pair) Receive(id uint64, into ...region.Segment) error {
	b := [1]Buffer{{ID: id}}
	if len(into) > 0 {
		b[0].Into, b[0].More = into[0], into[1:]
	}
	_, err := p.ReceiveAll(b[:])
	return err
}

// Buffer is the memory of one receive, for ReceiveAll.
type Buffer = work.Buffer

// ReceiveAll is Receive for each of buffers in turn, at less than the cost of as many
// calls: the NIC is told once. It stops at the first that cannot be posted, and returns
// how many were, and why that one was not. Others' receives do not come in between.
func (p *Pair) ReceiveAll(buffers []Buffer) (n int, err error) { return p.receive.post(buffers) }

// post does all of ReceiveAll for receives as most are: of one segment that is not empty.
// There is no call before they are published, since each costs ten to twenty instructions.
func (r *receiver) post(buffers []Buffer) (n int, err error) {
	r.mu.Lock()
	first := r.ledger.Index()
	for uint(n) < uint(len(buffers)) {
		b, index := &buffers[n], first+uint32(n)
		bytes := b.Into.Length
		if r.free == 0 || len(b.More) > 0 || bytes-1 >= r.bounds.Message {
			break
		}
		u := r.unit(index * r.stride)
		u[0], u[1] = prm.DataWords(b.Into.Addr, b.Into.LKey, bytes)
		if r.stride > 1 {
			r.terminate(index*r.stride + 1)
		}
		r.ledger.Note(index, b.ID)
		r.free--
		n++
	}
	if n < len(buffers) {
		n, err = r.rest(first, n, buffers)
		r.mu.Unlock()
		return n, err
	}
	if n > 0 { // as publish
		r.ledger.OpenTo(first + uint32(n))
		mmio.Record(r.record, prm.BE32((first+uint32(n))&0xffff))
	}
	r.mu.Unlock()
	return n, nil
}

// rest does what post does, for any receives, from the one after n that are encoded.
func (r *receiver) rest(first uint32, n int, buffers []Buffer) (int, error) {
	var err error
	for ; n < len(buffers); n++ {
		b, index := &buffers[n], first+uint32(n)
		if err = r.allowed(b, uint32(n)); err != nil {
			break
		}
		r.write(index, b)
		r.ledger.Note(index, b.ID)
		r.free--
	}
	if n > 0 {
		r.publish(first + uint32(n))
	}
	return n, err
}

// allowed is why b may not be posted, behind n that are not published.
func (r *receiver) allowed(b *Buffer, n uint32) error {
	switch {
	case r.err != nil:
		return r.err
	case len(r.ring) == 0:
		return ErrNoReceives
	}
	if _, _, err := r.bounds.CheckReceive(b.Into, b.More); err != nil {
		return err
	}
	if r.free == 0 {
		r.free = r.ledger.Room() - n
	}
	if r.free == 0 {
		return ErrRoom
	}
	return nil
}

// publish lets the NIC see the receives before index.
func (r *receiver) publish(index uint32) {
	r.ledger.OpenTo(index)
	mmio.Record(r.record, prm.BE32(index&0xffff))
}

// write encodes any receive.
func (r *receiver) write(index uint32, b *Buffer) {
	at := index * r.stride
	end := at + r.stride
	if d := b.Into; d.Length > 0 {
		u := r.unit(at)
		u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
		at++
	}
	for _, d := range b.More {
		if d.Length > 0 {
			u := r.unit(at)
			u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
			at++
		}
	}
	if at != end {
		r.terminate(at)
	}
}

func (r *receiver) terminate(at uint32) {
	u := r.unit(at)
	u[0], u[1] = prm.TerminatorWords()
}

func (r *receiver) unit(i uint32) *[2]uint64 { return &r.ring[i&uint32(len(r.ring)-1)] }
