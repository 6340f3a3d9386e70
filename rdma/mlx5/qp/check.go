package qp

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/nic"
)

// bounds is what may be posted.
func (l *Limits) bounds() nic.Bounds {
	return nic.Bounds{
		SendSegments: l.SendSegments, ReadSegments: l.ReadSegments, ReceiveSegments: l.ReceiveSegments,
		Inline: l.Inline, Message: l.Message, Atomics: l.Atomics,
	}
}

// units is the length of e in the ring, in units of 16 bytes, or the error of an
// entry that cannot be posted.
func units(e *Entry, b *nic.Bounds) (int, error) {
	segments, bytes, err := b.Check(e)
	if err != nil {
		return 0, err
	}
	n := 1 // control
	switch e.Op {
	case CompareSwap, FetchAdd:
		return 4, nil
	case Write, WriteImm, Read:
		n++
	}
	switch {
	case e.Inline == nil:
		n += segments
	case bytes > 0: // there is no segment for no bytes
		n += prm.InlineUnits(int(bytes))
	}
	return n, nil
}
