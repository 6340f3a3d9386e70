package srq

import (
	"errors"
	"fmt"
	"sync"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
)

// Config is how large a shared receive queue is.
type Config struct {
	Receives int // at least 1; rounded up to one less than a power of two
	Segments int // of a receive; 0 is 1; rounded up
}

// Limits is what a shared receive queue holds: at least what was asked for.
type Limits struct {
	Receives int
	Segments int
	Message  uint32 // bytes of a receive
}

// Queue is a shared receive queue. Its methods are safe for concurrent use.
type Queue struct {
	nic    *mlx5.NIC
	dev    *device.Device
	kernel device.SRQ
	limits Limits
	bounds nic.Bounds

	record *device.Record
	mem    *hostmem.Memory
	ledger *ledger.Shared
	post   poster // guarded by the ledger's lock

	mu     sync.Mutex // guards what follows; taken before the ledger's lock
	pairs  int
	closed bool
}

// New is a shared receive queue of card, with no receives. It is an error if c is out of
// range, the rounded sizes are more than the NIC's limits, the process cannot allocate or
// pin the memory, or the kernel refuses.
func New(card *mlx5.NIC, c Config) (*Queue, error) {
	q := &Queue{nic: card, dev: card.Device()}
	if err := q.make(c); err != nil {
		return nil, fmt.Errorf("shared receive queue: %w", err)
	}
	return q, nil
}

func (q *Queue) make(c Config) error {
	stride, err := q.plan(c)
	if err != nil {
		return err
	}
	if err := q.dev.Hold(q); err != nil {
		return err
	}
	if err := q.create(stride); err != nil {
		q.dev.Drop(q)
		return err
	}
	return nil
}

// plan checks c against the NIC, and returns the bytes of an entry of the ring.
func (q *Queue) plan(c Config) (stride uint32, err error) {
	most := q.nic.Limits()
	if c.Receives < 1 || c.Segments < 0 {
		return 0, fmt.Errorf("receives or segments out of range: %+v", c)
	}
	if c.Receives > most.SharedReceives {
		return 0, fmt.Errorf("%d receives is more than %d", c.Receives, most.SharedReceives)
	}
	segments := max(1, c.Segments)
	if segments > most.SharedSegments {
		return 0, fmt.Errorf("%d segments of a receive is more than %d", segments, most.SharedSegments)
	}
	stride = prm.SharedStride(segments)
	if int(stride) > most.ReceiveBytes {
		return 0, fmt.Errorf("%d bytes of a receive in the ring is more than %d", stride, most.ReceiveBytes)
	}
	q.limits = Limits{
		Receives: int(ring.RoundUp(uint32(c.Receives+1))) - 1,
		Segments: min(int(stride)/prm.Unit-1, most.SharedSegments),
		Message:  most.Message,
	}
	q.bounds = nic.Bounds{ReceiveSegments: q.limits.Segments, Message: q.limits.Message}
	return stride, nil
}

func (q *Queue) create(stride uint32) (err error) {
	entries := uint32(q.limits.Receives + 1)
	if q.record, err = q.dev.NewRecord(); err != nil {
		return err
	}
	if q.mem, err = q.dev.AllocRing(int(entries * stride)); err != nil {
		q.dev.FreeRecord(q.record)
		return err
	}
	q.post = poster{
		ring: hostmem.Split[[2]uint64](q.mem.Bytes()), stride: stride / prm.Unit, record: q.record.Words[prm.RecordReceive],
	}
	q.ledger = ledger.NewShared(entries, q.post.link)
	q.kernel, err = q.dev.CreateSRQ(device.SRQRequest{
		Buf: q.mem.Addr(), Bytes: uint64(entries * stride), Record: q.record.Addr,
		Receives: uint32(q.limits.Receives), Segments: uint32(q.limits.Segments),
	})
	if err != nil {
		q.dev.FreeRecord(q.record)
		return errors.Join(err, q.mem.Free())
	}
	return nil
}

// NIC is the NIC the queue belongs to.
func (q *Queue) NIC() *mlx5.NIC { return q.nic }

// Number is the queue's number, which its events name.
func (q *Queue) Number() uint32 { return q.kernel.Number }

// Limits is what the queue holds.
func (q *Queue) Limits() Limits { return q.limits }

// Room is how many receives may be posted before the queue is full.
func (q *Queue) Room() int {
	q.ledger.Lock()
	defer q.ledger.Unlock()
	return int(q.ledger.Room())
}

// SetLimit asks for one verbs.EventSRQLimit, which mlx5.NIC.Events tells, as soon as a
// message leaves fewer than n receives for the next: 0 to Limits().Receives. There is one
// event for each call, and n is 0 again with it; 0 takes the request back. It makes a
// system call.
func (q *Queue) SetLimit(n int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case n < 0 || n > q.limits.Receives:
		return fmt.Errorf("limit %d of a shared receive queue of %d", n, q.limits.Receives)
	}
	return q.dev.LimitSRQ(q.kernel, uint32(n))
}

// Close destroys the queue. It is ErrBusy, and the queue stays, while queue pairs use it. If
// the kernel refuses, that is the error; the queue then counts as closed all the same, and
// its memory is kept until the NIC closes. Receives that are posted are gone without a
// completion. Later calls do nothing and return nil.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil
	case q.pairs > 0:
		return ErrBusy
	}
	q.closed = true
	q.ledger.Lock()
	q.post.err = ErrClosed
	q.ledger.Unlock()
	defer q.dev.Drop(q)
	if err := q.dev.DestroySRQ(q.kernel); err != nil {
		q.dev.Keep(q.mem, nil)
		return fmt.Errorf("close shared receive queue: %w", err)
	}
	q.dev.FreeRecord(q.record)
	return q.mem.Free()
}

// Attach counts a queue pair that uses the queue. It returns what that needs to know, and
// is for package qp.
func (q *Queue) Attach() (*ledger.Shared, *device.SRQ, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil, ErrClosed
	}
	q.pairs++
	return q.ledger, &q.kernel, nil
}

// Detach undoes Attach. It is for package qp.
func (q *Queue) Detach() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pairs--
}
