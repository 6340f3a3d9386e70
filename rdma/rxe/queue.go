package rxe

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Queue is a completion queue. It counts the rooms of the queue pairs made on it and
// refuses a queue pair it could not hold, so that it can never overflow. Its methods
// are safe for concurrent use.
type Queue struct {
	nic    *NIC
	dev    *nic.Device
	id     uint64
	handle uint32

	mu    sync.Mutex // guards what follows
	ring  *ring
	next  uint32 // the next completion, free-running
	rooms nic.Rooms
	pairs map[uint64]*attached // by id

	wake nic.Wake
}

// attached is a queue pair that completes in a queue.
type attached struct {
	ledger ledger.Pair
	failed atomic.Bool // in error, as a completion said
}

// NewQueue is a completion queue of n with room for size completions. It is an error
// if size < 1 or more than the NIC's limit, or the kernel refuses.
func NewQueue(n *NIC, size int) (*Queue, error) {
	if size < 1 || size > n.limits.Completions {
		return nil, fmt.Errorf("completion queue of %d: not in 1..%d", size, n.limits.Completions)
	}
	q := &Queue{nic: n, dev: n.dev, pairs: map[uint64]*attached{}}
	if err := q.dev.Hold(q); err != nil {
		return nil, fmt.Errorf("completion queue of %d: %w", size, err)
	}
	if err := q.create(uint32(size)); err != nil {
		q.dev.Drop(q)
		return nil, fmt.Errorf("completion queue of %d: %w", size, err)
	}
	return q, nil
}

func (q *Queue) create(size uint32) error {
	q.id = q.dev.AddCQ(&q.wake)
	var response rxeabi.CreateCQResp
	made, err := q.dev.Context().CreateCQ(verbs.CreateCQ{
		UserHandle: q.id, Entries: size, Channel: q.dev.Channel(), Out: rxeabi.Bytes(&response),
	})
	if err != nil {
		q.dev.Remove(q.id)
		return err
	}
	q.handle = made.Handle
	if q.ring, err = mapRing(q.dev.Context(), response.Mapping, rxeabi.Size[uapi.WorkCompletion]()); err != nil {
		return errors.Join(err, q.destroy())
	}
	q.rooms.Size = q.ring.slots() - 1
	return nil
}

func (q *Queue) destroy() error {
	_, _, err := q.dev.Context().DestroyCQ(q.handle)
	q.dev.Remove(q.id)
	q.wake.Stop()
	return q.dev.IgnoreGone(err)
}

// NIC is the NIC the queue belongs to.
func (q *Queue) NIC() *NIC { return q.nic }

// Capacity is how many completions the queue holds: at least what was asked for.
func (q *Queue) Capacity() int { return int(q.rooms.Size) }

// Room is how many more entries and receives the queue pairs of this queue may have.
func (q *Queue) Room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rooms.Left()
}

// Close destroys the queue. No function given to Notify is running or will be
// called once it returns, so it must not be called from that function or with a
// lock held that the function takes. It is work.ErrQueueBusy, and the queue stays,
// while queue pairs use it. If the kernel refuses, that is the error; the queue then
// counts as closed all the same. Later calls do nothing and return nil.
func (q *Queue) Close() error {
	q.mu.Lock()
	first, err := q.rooms.Close()
	q.mu.Unlock()
	if !first {
		return err
	}
	defer q.dev.Drop(q)
	if err = q.destroy(); err != nil {
		q.dev.Keep(nil, q)
	}
	if err = errors.Join(err, q.ring.unmap()); err != nil {
		return fmt.Errorf("close completion queue: %w", err)
	}
	return nil
}

// attach counts the rooms of a ring of the queue pair id.
func (q *Queue) attach(n uint32) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rooms.Attach(n)
}

// enter makes completions of the queue pair id find p.
func (q *Queue) enter(id uint64, p *attached) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pairs[id] = p
}

// detach undoes attach and enter once the kernel's queue pair is destroyed, or was
// never made. Its completions that were not polled are gone.
func (q *Queue) detach(id uint64, n uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.purge(id)
	delete(q.pairs, id)
	q.rooms.Detach(n)
}

// abandon ends the use of the queue by a queue pair that the kernel refused to
// destroy: its completions may still come, and have their rooms.
func (q *Queue) abandon(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pairs[id].ledger.Ghost = true
	q.rooms.Abandon()
}

// purge takes the completions of a queue pair out of the queue. The kernel adds none
// of it meanwhile, and those of others behind what is found here: what stays moves up
// towards these.
func (q *Queue) purge(id uint64) {
	end := q.next
	for q.ring.ready(end) {
		end++
	}
	to := end
	for from := end; from != q.next; {
		from--
		if owner, _, _ := splitID(q.at(from).WRID); owner == id {
			continue
		}
		if to--; to != from {
			*q.at(to) = *q.at(from)
		}
	}
	if q.next != to {
		q.next = to
		q.ring.consume(to)
	}
}

// at is the completion i.
func (q *Queue) at(i uint32) *uapi.WorkCompletion {
	return rxeabi.View[uapi.WorkCompletion](q.ring.slot(i))
}
