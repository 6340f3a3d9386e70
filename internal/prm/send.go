package prm

import "encoding/binary"

// Send is a parsed send queue entry. A value is reused from entry to entry: the
// array behind Segments is kept. Only what Ctrl.Opcode has is meaningful, and
// the rest is zero, but for Ctrl.Imm (Opcode.HasImm).
type Send struct {
	Ctrl
	RemoteAddr uint64
	RKey       uint32
	SwapAdd    uint64
	Compare    uint64
	Segments   []Segment // local memory, in order; empty for a message of no bytes
	Inline     []byte    // the message itself instead, within the bytes given to ParseSend
	Length     uint64    // bytes of local memory or inline; may be more than a message can have
	Address    Address   // of a datagram
}

// ParseCtrl reads the control segment at the start of wqe. It takes any values;
// ParseSend judges them. It returns a *WQEError if wqe is shorter than a unit.
func ParseCtrl(wqe []byte) (Ctrl, error) {
	if len(wqe) < Unit {
		return Ctrl{}, &WQEError{Reason: Truncated, Value: uint64(len(wqe))}
	}
	s := (*[Unit]byte)(wqe)
	first := binary.BigEndian.Uint32(s[0:])
	second := binary.BigEndian.Uint32(s[4:])
	return Ctrl{
		OpMod:  uint8(first >> 24),
		Index:  uint16(first >> 8),
		Opcode: Opcode(first),
		QPN:    second >> 8,
		DS:     uint8(second),
		Flags:  s[11],
		Imm:    binary.BigEndian.Uint32(s[12:]),
	}, nil
}

// ParseSend reads one send queue entry into s, from a contiguous copy of at
// least its DS units, and checks everything that can be judged without the
// queue: not the index, the queue pair's number, keys or addresses. An entry
// that does not follow its layout gives a *WQEError, and s is then not
// meaningful but for what was read of Ctrl. Bytes of padding after inline data
// are not looked at, since drivers leave them as they were in the ring.
func ParseSend(wqe []byte, s *Send) error {
	*s = Send{Segments: s.Segments[:0]}
	var err error
	if s.Ctrl, err = ParseCtrl(wqe); err != nil {
		return err
	}
	if !s.Opcode.known() {
		return s.bad(UnknownOpcode, 3, uint64(s.Opcode))
	}
	if err := s.checkCtrl(wqe); err != nil {
		return err
	}
	end := int(s.DS) * Unit
	if len(wqe) < end {
		return s.bad(Truncated, 4, uint64(len(wqe)))
	}
	off := Unit
	if s.Opcode.HasRemote() {
		if end < off+Unit {
			return s.bad(BadSize, 7, uint64(s.DS))
		}
		if err := s.parseRemote(wqe, off); err != nil {
			return err
		}
		off += Unit
	}
	if s.Opcode.IsAtomic() {
		return s.parseAtomic(wqe[:end], off)
	}
	return s.parseData(wqe[:end], off)
}

// bad is the error of an entry with value at offset.
func (s *Send) bad(r Reason, offset int, value uint64) error {
	return &WQEError{Reason: r, Opcode: s.Opcode, Offset: offset, Value: value}
}

// checkCtrl judges the control segment by itself.
func (s *Send) checkCtrl(wqe []byte) error {
	switch {
	case s.OpMod != 0:
		return s.bad(UnknownModifier, 0, uint64(s.OpMod))
	case s.DS > MaxUnits: // bits 7:6 of the byte are reserved
		return s.bad(ReservedBits, 7, uint64(s.DS))
	case s.DS == 0, s.Opcode == OpNop && s.DS != 1:
		return s.bad(BadSize, 7, uint64(s.DS))
	case wqe[8]|wqe[9]|wqe[10] != 0: // signature and stream
		return s.bad(ReservedBits, 8, uint64(binary.BigEndian.Uint32(wqe[8:])>>8))
	case s.Flags&^controlFlags != 0:
		return s.bad(UnknownFlags, 11, uint64(s.Flags))
	}
	return nil
}

func (s *Send) parseRemote(wqe []byte, off int) error {
	seg := (*[Unit]byte)(wqe[off:])
	s.RemoteAddr = binary.BigEndian.Uint64(seg[0:])
	s.RKey = binary.BigEndian.Uint32(seg[8:])
	if reserved := binary.BigEndian.Uint32(seg[12:]); reserved != 0 {
		return s.bad(ReservedBits, off+12, uint64(reserved))
	}
	return nil
}

// parseAtomic reads the operands and the one data segment of an atomic. The
// compare operand of a fetch-and-add is not set by drivers, and not read.
func (s *Send) parseAtomic(wqe []byte, off int) error {
	if len(wqe) != off+2*Unit {
		return s.bad(BadSize, 7, uint64(s.DS))
	}
	seg := (*[Unit]byte)(wqe[off:])
	s.SwapAdd = binary.BigEndian.Uint64(seg[0:])
	if s.Opcode == OpCompareSwap {
		s.Compare = binary.BigEndian.Uint64(seg[8:])
	}
	off += Unit
	d := data(wqe[off:])
	if d.Length != 8 {
		return s.bad(AtomicLength, off, uint64(d.Length))
	}
	s.Segments = append(s.Segments, d)
	s.Length = 8
	return nil
}

// parseData reads the data segments, or the one inline segment, that end the entry.
func (s *Send) parseData(wqe []byte, off int) error {
	if off < len(wqe) && wqe[off]&0x80 != 0 {
		return s.parseInline(wqe, off)
	}
	for ; off < len(wqe); off += Unit {
		d := data(wqe[off:])
		switch {
		case d.Length&inlineFlag != 0:
			return s.bad(BadInline, off, uint64(d.Length))
		case d.Length == 0:
			return s.bad(EmptySegment, off, 0)
		}
		s.Segments = append(s.Segments, d)
		s.Length += uint64(d.Length)
	}
	return nil
}

func (s *Send) parseInline(wqe []byte, off int) error {
	word := binary.BigEndian.Uint32(wqe[off:])
	n := int(word &^ inlineFlag)
	room := len(wqe) - off - InlineHeader
	switch {
	case s.Opcode == OpRead: // the bytes come here: there must be memory for them
		return s.bad(BadInline, off, uint64(word))
	case n == 0:
		return s.bad(EmptySegment, off, uint64(word))
	case n > room:
		return s.bad(InlineTooLong, off, uint64(n))
	case InlineUnits(n)*Unit != len(wqe)-off:
		return s.bad(BadSize, 7, uint64(s.DS))
	}
	s.Inline = wqe[off+InlineHeader:][:n]
	s.Length = uint64(n)
	return nil
}

// data reads the data segment in the first unit of seg.
func data(seg []byte) Segment {
	u := (*[Unit]byte)(seg)
	return Segment{
		Length: binary.BigEndian.Uint32(u[0:]),
		LKey:   binary.BigEndian.Uint32(u[4:]),
		Addr:   binary.BigEndian.Uint64(u[8:]),
	}
}
