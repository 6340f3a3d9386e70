package ring

// Send counts a send queue in basic blocks. An entry takes one or more of them;
// it is posted, then rung (made known to the hardware), and retired by the
// completion of it or of a later one.
type Send struct {
	size   uint32
	posted uint32 // blocks of entries written
	rung   uint32 // of these, known to the hardware
	done   uint32 // of these, completed
}

// NewSend is an empty send queue of a power of two of blocks, up to MaxWork.
func NewSend(blocks uint32) Send {
	checkSize(blocks, MaxWork)
	return Send{size: blocks}
}

// Size is the number of blocks.
func (s *Send) Size() uint32 { return s.size }

// Room is how many blocks may be posted.
func (s *Send) Room() uint32 { return s.size - (s.posted - s.done) }

// Index is the hardware's index of the next entry: its control segment has it,
// and so will its completion.
func (s *Send) Index() uint16 { return uint16(s.posted) }

// Slot is the block in the ring that a hardware index means, below Size.
func (s *Send) Slot(index uint16) uint32 { return uint32(index) & (s.size - 1) }

// Post counts an entry of 1 to Room blocks, written from Index on. It returns
// false, and counts nothing, if there is no room or no block.
func (s *Send) Post(blocks uint32) bool {
	if blocks == 0 || blocks > s.Room() {
		return false
	}
	s.posted += blocks
	return true
}

// Pending reports whether entries were posted since the last Ring.
func (s *Send) Pending() bool { return s.posted != s.rung }

// Ring counts everything posted as known to the hardware, and returns what the
// doorbell record must say.
func (s *Send) Ring() uint32 {
	s.rung = s.posted
	return s.posted & 0xffff
}

// Retire frees the blocks of the entry that starts at a completion's index and
// has that many blocks, and those of all entries before it. It returns false, and
// frees nothing, if no such entry was rung and not yet retired.
func (s *Send) Retire(index uint16, blocks uint32) bool {
	upTo := uint32(index-uint16(s.done)) + blocks
	if blocks == 0 || blocks > s.size || upTo > s.rung-s.done {
		return false
	}
	s.done += upTo
	return true
}

// Reset empties the queue and starts its counters at 0, as the hardware's start
// after a reset of the queue pair.
func (s *Send) Reset() { *s = Send{size: s.size} }
