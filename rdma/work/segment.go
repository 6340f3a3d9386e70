package work

import (
	"errors"
	"math"
)

// ErrRange is returned for a range that is not within its region, or of a region
// that was closed.
var ErrRange = errors.New("range is not within an open region")

// Segment is bytes of this process's memory, for entries and receives.
type Segment struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// Buffer is the memory of one receive.
type Buffer struct {
	ID   uint64 // the caller's, for the completion
	Into Segment
	More []Segment // goes on where Into ends
}

// outside is the length of a segment that was not within its region. It is
// longer than a segment can be.
const outside = math.MaxUint32

// NoSegment is the segment of a range that is not within its region.
func NoSegment() Segment { return Segment{Length: outside} }

// Outside reports whether the segment was asked for a range that is not within
// its region. Entries with such a segment are refused.
func (s Segment) Outside() bool { return s.Length == outside }

// Target is a place in a peer's region, for writes, reads and atomics. It is
// plain data, which the region's owner sends to the peer by any means.
type Target struct {
	Addr uint64
	RKey uint32
}
