package nic

import (
	"slices"

	"github.com/farwire/farwire/rdma/work"
)

// Bounds is what an entry of a queue pair, or a receive, may need.
type Bounds struct {
	SendSegments    int
	ReadSegments    int
	ReceiveSegments int
	Inline          int
	Message         uint32 // bytes, less than work.NoSegment's
	Atomics         bool
}

// Check counts the segments of e that are not empty, and the bytes that it moves.
// It is the error of an entry that cannot be posted.
func (b *Bounds) Check(e *work.Entry) (segments int, bytes uint32, err error) {
	segments, n := measure(e.Local.Length, e.Locals)
	if e.Op < work.Send || e.Op > work.FetchAdd {
		return 0, 0, work.ErrOp
	}
	if e.Solicited && e.Op != work.Send && e.Op != work.SendImm && e.Op != work.WriteImm {
		return 0, 0, work.ErrEntry
	}
	switch {
	case e.Local.Outside() || slices.ContainsFunc(e.Locals, work.Segment.Outside):
		err = work.ErrRange
	case e.Op == work.CompareSwap || e.Op == work.FetchAdd:
		err = b.checkAtomic(e, segments, n)
	case e.Inline != nil:
		n = uint64(len(e.Inline))
		err = b.checkInline(e, segments)
	case n > uint64(b.Message):
		err = work.ErrTooLong
	case segments > b.SendSegments || e.Op == work.Read && segments > b.ReadSegments:
		err = work.ErrSegments
	}
	if err != nil {
		return 0, 0, err
	}
	return segments, uint32(n), nil
}

func (b *Bounds) checkAtomic(e *work.Entry, segments int, bytes uint64) error {
	switch {
	case !b.Atomics:
		return work.ErrNoAtomics
	case e.Inline != nil:
		return work.ErrEntry
	case segments != 1 || bytes != 8 || e.Remote.Addr%8 != 0:
		return work.ErrAtomic
	}
	return nil
}

func (b *Bounds) checkInline(e *work.Entry, segments int) error {
	switch {
	case segments > 0 || e.Op == work.Read:
		return work.ErrEntry
	case len(e.Inline) > b.Inline:
		return work.ErrInline
	}
	return nil
}

// CheckReceive is Check for a receive.
func (b *Bounds) CheckReceive(first work.Segment, rest []work.Segment) (segments int, bytes uint32, err error) {
	segments, n := measure(first.Length, rest)
	switch {
	case n <= uint64(b.Message) && segments <= b.ReceiveSegments:
		return segments, uint32(n), nil
	case first.Outside() || slices.ContainsFunc(rest, work.Segment.Outside):
		err = work.ErrRange
	case n > uint64(b.Message):
		err = work.ErrTooLong
	default:
		err = work.ErrSegments
	}
	return 0, 0, err
}

// measure counts the segments that are not empty, and their bytes. With one that is
// outside they are more than a message may have.
func measure(first uint32, rest []work.Segment) (segments int, bytes uint64) {
	bytes = uint64(first)
	if first > 0 {
		segments = 1
	}
	for i := range rest {
		if n := rest[i].Length; n > 0 {
			segments++
			bytes += uint64(n)
		}
	}
	return segments, bytes
}
