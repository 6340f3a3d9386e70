package ring

// Receive counts a receive queue in entries, which complete in the order they
// were posted in.
type Receive struct {
	size   uint32
	posted uint32
	done   uint32
}

// NewReceive is an empty receive queue of a power of two of entries, up to MaxWork.
func NewReceive(entries uint32) Receive {
	checkSize(entries, MaxWork)
	return Receive{size: entries}
}

// Size is the number of entries, 0 for the zero Receive: a queue pair without a
// receive queue.
func (r *Receive) Size() uint32 { return r.size }

// Room is how many entries may be posted.
func (r *Receive) Room() uint32 { return r.size - (r.posted - r.done) }

// Next is the slot of the next entry, below Size. It needs a queue that has entries.
func (r *Receive) Next() uint32 { return r.posted & (r.size - 1) }

// Post counts an entry, written at Next. It returns false, and counts nothing, if
// there is no room.
func (r *Receive) Post() bool {
	if r.Room() == 0 {
		return false
	}
	r.posted++
	return true
}

// Record is what the doorbell record must say for all entries posted.
func (r *Receive) Record() uint32 { return r.posted & 0xffff }

// Retire frees the oldest entry, and returns its slot. It returns false, and frees
// nothing, if a completion's counter is not that entry's.
func (r *Receive) Retire(counter uint16) (slot uint32, ok bool) {
	if r.posted == r.done || counter != uint16(r.done) {
		return 0, false
	}
	slot = r.done & (r.size - 1)
	r.done++
	return slot, true
}

// Reset empties the queue and starts its counters at 0.
func (r *Receive) Reset() { *r = Receive{size: r.size} }
