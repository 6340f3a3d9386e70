package nic

import "github.com/farwire/farwire/rdma/work"

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
	if e.Op < work.Send || e.Op > work.FetchAdd {
		return 0, 0, work.ErrOp
	}
	if e.Solicited && e.Op != work.Send && e.Op != work.SendImm && e.Op != work.WriteImm {
		return 0, 0, work.ErrEntry
	}
	count, n, err := measure(e.Local, e.Locals)
	switch {
	case err != nil:
		return 0, 0, err
	case e.Op == work.CompareSwap || e.Op == work.FetchAdd:
		err = b.checkAtomic(e, count, n)
	case e.Inline != nil:
		n = uint64(len(e.Inline))
		err = b.checkInline(e, count)
	case n > uint64(b.Message):
		err = work.ErrTooLong
	case count > b.SendSegments || e.Op == work.Read && count > b.ReadSegments:
		err = work.ErrSegments
	}
	if err != nil {
		return 0, 0, err
	}
	return count, uint32(n), nil
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
func (b *Bounds) CheckReceive(into []work.Segment) (segments int, bytes uint32, err error) {
	count, n, err := measure(work.Segment{}, into)
	switch {
	case err != nil:
		return 0, 0, err
	case n > uint64(b.Message):
		return 0, 0, work.ErrTooLong
	case count > b.ReceiveSegments:
		return 0, 0, work.ErrSegments
	}
	return count, uint32(n), nil
}

// measure counts the segments that are not empty, and their bytes.
func measure(first work.Segment, rest []work.Segment) (count int, bytes uint64, err error) {
	if first.Length > 0 {
		if first.Outside() {
			return 0, 0, work.ErrRange
		}
		count, bytes = 1, uint64(first.Length)
	}
	for _, s := range rest {
		if s.Length == 0 {
			continue
		}
		if s.Outside() {
			return 0, 0, work.ErrRange
		}
		count++
		bytes += uint64(s.Length)
	}
	return count, bytes, nil
}
