package ledger

import "sync/atomic"

// Sends is the ledger of a send ring. The hardware counts basic blocks, the
// caller counts entries; an entry takes one block or several, and a completion
// names the first block of its entry in 16 bits.
type Sends struct {
	slots    []Slot // by first block; a power of two, at most 1<<15
	capacity uint32 // entries

	next mark          // after the last entry posted; the poster's
	rung atomic.Uint32 // blocks handed over, free-running; poster stores
	done atomic.Uint64 // mark after the last entry retired; poller stores
}

// mark is a place in the sequence of entries: the blocks before it in the lower half,
// and the entries in the upper half, both free-running. One addition counts both. What
// the blocks carry into the entries is the same in all marks, and not in differences.
type mark = uint64

const oneEntry mark = 1 << 32

// Slot is an entry that was posted. Its size is a power of two, to be found by a shift.
type Slot struct {
	Entry
	first uint32 // first block, free-running: tells a first block from a later one
	end   mark   // after the entry
}

// NewSends is an empty ledger of a ring of blocks basic blocks that takes
// capacity entries. blocks is a power of two, at most 1<<15, and holds capacity
// entries of any size the queue pair allows.
func NewSends(blocks, capacity uint32) *Sends {
	s := &Sends{slots: make([]Slot, blocks), capacity: capacity}
	for i := range s.slots {
		s.slots[i].first = ^uint32(i)
	}
	return s
}

// Room is how many entries fit. It is exact for the poster and may only have
// grown by the time anyone else looks.
func (s *Sends) Room() uint32 { return s.capacity - uint32((s.next-s.done.Load())/oneEntry) }

// Block is the free-running index of the next entry's first block. For the
// poster.
func (s *Sends) Block() uint32 { return uint32(s.next) }

// Open writes down the entry that starts at Block and takes n blocks. The
// poster has seen Room > 0.
func (s *Sends) Open(e Entry, n uint32) {
	first, end := uint32(s.next), s.next+oneEntry+mark(n)
	s.slots[first&s.mask()] = Slot{Entry: e, first: first, end: end}
	s.next = end
}

// HandOver lets the poller see every entry opened so far. The poster calls it
// before the NIC is told of them.
func (s *Sends) HandOver() { s.rung.Store(s.Block()) }

// Retire frees the slots up to and including the entry whose first block is
// counter, and returns that entry. It is false, and frees nothing, if no
// outstanding entry starts there. For the poller.
func (s *Sends) Retire(counter uint16) (Entry, bool) {
	slot := s.Outstanding(counter)
	if slot == nil {
		return Entry{}, false
	}
	e := slot.Entry
	s.Free(slot)
	return e, true
}

// Outstanding is the slot of the entry whose first block is counter, or nil if no
// outstanding entry starts there. For the poller.
func (s *Sends) Outstanding(counter uint16) *Slot {
	done := uint32(s.done.Load())
	ahead := uint32(counter - uint16(done))
	first := done + ahead
	slot := &s.slots[first&s.mask()]
	if ahead >= s.rung.Load()-done || slot.first != first {
		return nil
	}
	return slot
}

// Free frees the slots up to and including one that is Outstanding. The poster may
// write to it then. For the poller.
func (s *Sends) Free(slot *Slot) { s.done.Store(slot.end) }

func (s *Sends) mask() uint32 { return uint32(len(s.slots) - 1) }
