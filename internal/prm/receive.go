package prm

import "encoding/binary"

// ParseReceive reads one receive queue entry, a whole stride, into *list, whose
// array is reused. The list ends at a terminator or with the stride; a list of
// no segments is a receive of an empty message. An entry that does not follow
// its layout gives a *WQEError.
func ParseReceive(stride []byte, list *[]Segment) error {
	*list = (*list)[:0]
	if len(stride) == 0 || len(stride)%Unit != 0 {
		return badReceive(BadSize, 0, uint64(len(stride)))
	}
	for off := 0; off < len(stride); off += Unit {
		d := data(stride[off:])
		switch {
		case d.Length == 0 && d.LKey == terminatorKey:
			if d.Addr != 0 {
				return badReceive(ReservedBits, off+8, d.Addr)
			}
			return nil
		case d.Length == 0:
			return badReceive(EmptySegment, off, uint64(d.LKey))
		case d.Length&inlineFlag != 0:
			return badReceive(BadInline, off, uint64(d.Length))
		}
		*list = append(*list, d)
	}
	return nil
}

// ParseShared is ParseReceive for an entry of a shared receive queue, which
// starts with the index of the next entry.
func ParseShared(stride []byte, list *[]Segment) (next uint16, err error) {
	*list = (*list)[:0]
	if len(stride) < 2*Unit {
		return 0, badReceive(BadSize, 0, uint64(len(stride)))
	}
	link := (*[Unit]byte)(stride)
	next = binary.BigEndian.Uint16(link[2:])
	link0 := *link
	link0[2], link0[3] = 0, 0
	if link0 != [Unit]byte{} {
		return next, badReceive(ReservedBits, 0, binary.BigEndian.Uint64(link0[:]))
	}
	if err := ParseReceive(stride[Unit:], list); err != nil {
		err.(*WQEError).Offset += Unit
		return next, err
	}
	return next, nil
}

func badReceive(r Reason, offset int, value uint64) error {
	return &WQEError{Reason: r, Offset: offset, Value: value}
}
