package cq

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
	"github.com/farwire/farwire/rdma/work"
)

// Errors of completion queues.
var (
	// ErrDestroyed is returned by methods of a queue that was closed.
	ErrDestroyed = work.ErrQueueClosed
	// ErrFull is returned for a queue pair whose rooms, with those of the queue
	// pairs already there, are more than the queue holds.
	ErrFull = work.ErrQueueFull
	// ErrBusy is returned by Close while queue pairs use the queue.
	ErrBusy = work.ErrQueueBusy
	// ErrOverrun says that the NIC gave the queue up. What its queue pairs had
	// posted is lost; they and the queue are to be destroyed.
	ErrOverrun = work.ErrOverrun
)

// Queue is a completion queue. Its methods are safe for concurrent use.
type Queue struct {
	nic    *mlx5.NIC
	dev    *device.Device
	kernel device.CQ // what the kernel made of it
	record *device.Record

	mem      *hostmem.Memory
	entries  []prm.CQEWords
	consumed *uint32 // of record
	keyWord  int     // of entries: says whose they are

	mu    sync.Mutex // guards what follows
	ring  ring.Completion
	wide  uint32 // one more than the events taken when last armed for any completion
	rooms nic.Rooms
	rings map[*ledger.Shared]int // queue pairs here, by the shared receive queue of each

	recent     *ledger.Pair // of the last completion, by its entry's key
	recentWord uint32
	nobody     ledger.Pair // of completions with the key of no queue pair; it has no room

	wake nic.Wake
}

// minCompletions is the least entries of a queue: rdma-core makes none smaller.
const minCompletions = 2

// New is a completion queue of card with room for n completions, rounded up to a
// power of two from 2 on. It is an error if n < 1, the rounded n is more than the
// NIC's limit, the process cannot allocate or pin the memory, or the kernel
// refuses.
func New(card *mlx5.NIC, n int) (*Queue, error) {
	dev := card.Device()
	if max := card.Limits().Completions; n < 1 || n > max {
		return nil, fmt.Errorf("completion queue of %d: not in 1..%d", n, max)
	}
	q := &Queue{nic: card, dev: dev}
	if err := dev.Hold(q); err != nil {
		return nil, fmt.Errorf("completion queue of %d: %w", n, err)
	}
	if err := q.create(ring.RoundUp(uint32(max(minCompletions, n)))); err != nil {
		dev.Drop(q)
		return nil, fmt.Errorf("completion queue of %d: %w", n, err)
	}
	return q, nil
}

func (q *Queue) create(n uint32) (err error) {
	q.ring, q.rooms = ring.NewCompletion(n), nic.Rooms{Size: n}
	if q.record, err = q.dev.NewRecord(); err != nil {
		return err
	}
	if q.mem, err = q.dev.AllocRing(int(n) * prm.CQESize); err != nil {
		q.dev.FreeRecord(q.record)
		return err
	}
	q.open()
	q.kernel, err = q.dev.CreateCQ(q.mem.Addr(), q.record.Addr, n, &q.wake)
	if err != nil {
		q.dev.FreeRecord(q.record)
		return errors.Join(err, q.mem.Free())
	}
	return nil
}

// open makes the queue ready over its memory: every entry is marked as one that the NIC
// has not written.
func (q *Queue) open() {
	q.entries = hostmem.Split[prm.CQEWords](q.mem.Bytes())
	for i := range q.entries {
		q.entries[i].Bytes()[prm.CQESize-1] = prm.CQEFresh
	}
	q.consumed, q.keyWord = q.record.Words[prm.RecordCI], q.dev.KeyWord()
	q.nobody = ledger.Pair{Sends: ledger.NewSends(1, 0), Receives: ledger.NewReceives(1, 0)}
	q.nobody.Leave()
	q.recent = &q.nobody
}

// Capacity is how many completions the queue holds.
func (q *Queue) Capacity() int { return int(q.ring.Size()) }

// Room is how many more entries and receives the queue pairs of this queue may
// have.
func (q *Queue) Room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rooms.Left()
}

// NIC is the NIC the queue belongs to.
func (q *Queue) NIC() *mlx5.NIC { return q.nic }

// Close destroys the queue. No function given to Notify is running or will be
// called once it returns, so it must not be called from that function or with a
// lock held that the function takes. It is ErrBusy, and the queue stays, while
// queue pairs use it. If the kernel refuses, that is the error; the queue then
// counts as closed all the same, and its memory is kept until the NIC closes.
// Later calls do nothing and return nil.
func (q *Queue) Close() error {
	q.mu.Lock()
	first, err := q.rooms.Close()
	q.mu.Unlock()
	if !first {
		return err
	}
	err = q.dev.DestroyCQ(q.kernel)
	q.wake.Stop()
	defer q.dev.Drop(q)
	if err != nil {
		q.dev.Keep(q.mem, nil)
		return fmt.Errorf("close completion queue: %w", err)
	}
	q.dev.FreeRecord(q.record)
	return q.mem.Free()
}

// Attach counts the rooms of a ring of a queue pair and returns the kernel's
// handle of the queue. It is for package qp.
func (q *Queue) Attach(r ledger.Rooms) (handle uint32, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := r.N
	if q.rings[r.Shared] > 0 {
		n = 0 // counted already
	}
	if err := q.rooms.Attach(n); err != nil {
		return 0, err
	}
	if r.Shared != nil {
		if q.rings == nil {
			q.rings = map[*ledger.Shared]int{}
		}
		q.rings[r.Shared]++
	}
	return q.kernel.Handle, nil
}

// Detach undoes Attach once no completion of the ring can come any more. It is
// for package qp.
func (q *Queue) Detach(r ledger.Rooms) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := r.N
	if r.Shared != nil {
		if q.rings[r.Shared]--; q.rings[r.Shared] > 0 {
			n = 0 // others' completions may come
		} else {
			delete(q.rings, r.Shared)
		}
	}
	q.rooms.Detach(n)
}

// Abandon ends the use of the queue by a ring whose completions may still come:
// its rooms stay counted. It is for package qp.
func (q *Queue) Abandon(ledger.Rooms) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rooms.Abandon()
}

// Purge takes the completions of a queue pair that were not polled out of the
// queue. The kernel has destroyed it. It is for package qp.
func (q *Queue) Purge(pair device.QP) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.purge(pair.Key)
}

// failure is why the queue will deliver nothing more, or nil.
func (q *Queue) failure() error {
	if q.wake.Overrun() {
		return ErrOverrun
	}
	return q.dev.Failure()
}
