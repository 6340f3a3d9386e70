package roce

import (
	"encoding/binary"
	"slices"
)

// Header is a packet's headers as plain values, for building one. Only the
// fields that the opcode carries are looked at. Numbers of 24 bits are cut.
type Header struct {
	Opcode       Opcode
	Solicited    bool
	Migration    bool
	AckRequested bool
	FECN, BECN   bool
	PKey         uint16 // 0 means DefaultPKey
	DestQP       uint32
	PSN          uint32

	VA     uint64 // RETH, AtomicETH
	RKey   uint32 // RETH, AtomicETH
	Length uint32 // RETH: bytes of the whole message

	SwapAdd, Compare uint64 // AtomicETH

	Syndrome Syndrome // AETH
	MSN      uint32   // AETH

	QKey     uint32 // DETH
	SourceQP uint32 // DETH

	Original   uint64 // AtomicAckETH
	Imm        uint32 // ImmDt
	Invalidate uint32 // IETH: the key
}

// Size returns the bytes from BTH to pad of a packet with n bytes of payload.
func Size(op Opcode, n int) int {
	return BTHSize + op.Info().Headers.Size() + (n+3)&^3
}

// Put writes the headers to the beginning of b, and zeros where the pad of a
// payload of n bytes belongs. It returns the place of the payload, for the caller
// to fill, and Size(h.Opcode, n). b must have room for that size: Put panics
// otherwise, like any slice expression.
func (h *Header) Put(b []byte, n int) (payload []byte, size int) {
	size = Size(h.Opcode, n)
	b = b[:size]
	pad := -n & 3
	BTH(b).put(h, pad)
	at := h.putExtended(b, BTHSize)
	clear(b[at+n:])
	return b[at : at+n : at+n], size
}

// Append appends a whole packet, BTH to pad, to b. It allocates only when b has
// no room.
func (h *Header) Append(b, payload []byte) []byte {
	at, size := len(b), Size(h.Opcode, len(payload))
	b = slices.Grow(b, size)[:at+size]
	p, _ := h.Put(b[at:], len(payload))
	copy(p, payload)
	return b
}

func (h *Header) putExtended(b []byte, at int) int {
	set := h.Opcode.Info().Headers
	if set&HasRETH != 0 {
		RETH(b[at:]).put(h.VA, h.RKey, h.Length)
		at += RETHSize
	}
	if set&HasAtomicETH != 0 {
		AtomicETH(b[at:]).put(h)
		at += AtomicETHSize
	}
	if set&HasAETH != 0 {
		AETH(b[at:]).put(h.Syndrome, h.MSN)
		at += AETHSize
	}
	if set&HasAtomicAckETH != 0 {
		binary.BigEndian.PutUint64(b[at:], h.Original)
		at += AtomicAckETHSize
	}
	if set&HasDETH != 0 {
		DETH(b[at:]).put(h.QKey, h.SourceQP)
		at += DETHSize
	}
	if set&HasImmDt != 0 {
		binary.BigEndian.PutUint32(b[at:], h.Imm)
		at += ImmDtSize
	}
	if set&HasIETH != 0 {
		binary.BigEndian.PutUint32(b[at:], h.Invalidate)
		at += IETHSize
	}
	return at
}

// Header returns the packet's headers as values; zeros for what Parse did not
// find.
func (p *Packet) Header() Header {
	b := p.BTH
	if b == nil {
		return Header{}
	}
	h := Header{
		Opcode:       b.Opcode(),
		Solicited:    b.Solicited(),
		Migration:    b.Migration(),
		AckRequested: b.AckRequested(),
		FECN:         b.FECN(),
		BECN:         b.BECN(),
		PKey:         b.PKey(),
		DestQP:       b.DestQP(),
		PSN:          b.PSN(),
	}
	if x := p.RETH(); x != nil {
		h.VA, h.RKey, h.Length = x.VA(), x.RKey(), x.Length()
	}
	if x := p.AtomicETH(); x != nil {
		h.VA, h.RKey, h.SwapAdd, h.Compare = x.VA(), x.RKey(), x.SwapAdd(), x.Compare()
	}
	if x := p.AETH(); x != nil {
		h.Syndrome, h.MSN = x.Syndrome(), x.MSN()
	}
	if x := p.AtomicAckETH(); x != nil {
		h.Original = x.Original()
	}
	if x := p.DETH(); x != nil {
		h.QKey, h.SourceQP = x.QKey(), x.SourceQP()
	}
	if x := p.ImmDt(); x != nil {
		h.Imm = x.Imm()
	}
	if x := p.IETH(); x != nil {
		h.Invalidate = x.RKey()
	}
	return h
}
