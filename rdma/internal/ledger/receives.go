package ledger

import "sync/atomic"

// Receives is the ledger of a receive ring. Its entries complete in the order
// they were posted, one completion each.
type Receives struct {
	ids      []uint64 // a power of two, at most 1<<15
	capacity uint32
	posted   atomic.Uint32 // free-running; poster stores
	retired  atomic.Uint32 // free-running; poller stores
}

// NewReceives is an empty ledger of a ring of slots, a power of two of at most
// 1<<15, that takes capacity receives.
func NewReceives(slots, capacity uint32) *Receives {
	return &Receives{ids: make([]uint64, slots), capacity: capacity}
}

// Slots is the size of the ring.
func (r *Receives) Slots() uint32 { return uint32(len(r.ids)) }

// Room is how many receives fit. It is exact for the poster and may only have
// grown by the time anyone else looks.
func (r *Receives) Room() uint32 { return r.capacity - (r.posted.Load() - r.retired.Load()) }

// Index is the free-running index of the next receive. For the poster.
func (r *Receives) Index() uint32 { return r.posted.Load() }

// Open writes down the receive at Index and lets the poller see it; the NIC is
// told of it afterwards. The poster has seen Room > 0.
func (r *Receives) Open(id uint64) {
	n := r.posted.Load()
	r.Note(n, id)
	r.OpenTo(n + 1)
}

// Note writes down the receive at a free-running index, which is Index or one of those
// after it that there is Room for. OpenTo follows.
func (r *Receives) Note(index uint32, id uint64) { r.ids[index&r.mask()] = id }

// OpenTo lets the poller see the receives noted before index, as Open does.
func (r *Receives) OpenTo(index uint32) { r.posted.Store(index) }

// Retire frees the oldest receive if counter, as a completion has it, names
// that one, and returns its identifier. Any other counter is false and frees
// nothing. For the poller.
func (r *Receives) Retire(counter uint16) (id uint64, ok bool) {
	n, mask := r.retired.Load(), r.mask()
	if r.posted.Load() == n || (uint32(counter)^n)&mask != 0 {
		return 0, false
	}
	id = r.ids[n&mask]
	r.retired.Store(n + 1)
	return id, true
}

func (r *Receives) mask() uint32 { return r.Slots() - 1 }
