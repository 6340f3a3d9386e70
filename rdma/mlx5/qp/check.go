package qp

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// units is the length of e in the ring, in units of 16 bytes, or the error of an
// entry that cannot be posted.
func (l *Limits) units(e *Entry) (int, error) {
	if e.Op < Send || e.Op > FetchAdd {
		return 0, ErrOp
	}
	if e.Solicited && e.Op != Send && e.Op != SendImm && e.Op != WriteImm {
		return 0, ErrEntry
	}
	count, bytes, err := measure(e.Local, e.Locals)
	if err != nil {
		return 0, err
	}
	n := 1 // control
	switch e.Op {
	case CompareSwap, FetchAdd:
		if !l.Atomics {
			return 0, ErrNoAtomics
		}
		if e.Inline != nil {
			return 0, ErrEntry
		}
		if count != 1 || bytes != 8 || e.Remote.Addr%8 != 0 {
			return 0, ErrAtomic
		}
		return 4, nil
	case Write, WriteImm, Read:
		n++
	}
	if e.Inline != nil {
		m, err := l.inlineUnits(e, count)
		return n + m, err
	}
	switch {
	case bytes > uint64(l.Message):
		return 0, ErrTooLong
	case count > l.SendSegments || e.Op == Read && count > l.ReadSegments:
		return 0, ErrSegments
	}
	return n + count, nil
}

// inlineUnits is the length of e's inline segment; there is none for no bytes.
func (l *Limits) inlineUnits(e *Entry, segments int) (int, error) {
	switch n := len(e.Inline); {
	case segments > 0 || e.Op == Read:
		return 0, ErrEntry
	case n > l.Inline:
		return 0, ErrInline
	case n == 0:
		return 0, nil
	default:
		return prm.InlineUnits(n), nil
	}
}

// measure counts the segments that are not empty, and their bytes.
func measure(first region.Segment, rest []region.Segment) (count int, bytes uint64, err error) {
	if first.Length > 0 {
		if err := checkSegment(first); err != nil {
			return 0, 0, err
		}
		count, bytes = 1, uint64(first.Length)
	}
	for _, s := range rest {
		if s.Length == 0 {
			continue
		}
		if err := checkSegment(s); err != nil {
			return 0, 0, err
		}
		count++
		bytes += uint64(s.Length)
	}
	return count, bytes, nil
}

func checkSegment(s region.Segment) error {
	switch {
	case s.Outside():
		return region.ErrRange
	case s.Length > prm.MaxLength: // the bit above marks inline bytes
		return ErrTooLong
	}
	return nil
}
