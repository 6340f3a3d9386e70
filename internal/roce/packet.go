package roce

import "encoding/binary"

// Sizes of packets.
const (
	// MaxMTU is the largest path MTU (payload of one packet).
	MaxMTU = 4096
	// MaxMessage is the largest message (section 9.7.7).
	MaxMessage = 1 << 31
	// ICRCSize is the size of the invariant CRC.
	ICRCSize = 4
	// MaxPacket is the largest packet, from its BTH to its pad, at MaxMTU:
	// RDMA WRITE Only with Immediate. On a wire ICRCSize bytes follow.
	MaxPacket = BTHSize + RETHSize + ImmDtSize + MaxMTU
)

// Packet is a parsed packet: views into the bytes that Parse was given, valid
// as long as those are.
type Packet struct {
	BTH     BTH
	Info    Info   // of the BTH's opcode
	Payload []byte // without the pad
	ext     []byte // the extended headers
}

// Parse is ParseAs for packets of a reliable connection.
func Parse(b []byte) (p Packet, err error) { return ParseAs(ReliableConnection, b) }

// ParseAs reads a packet of t from its BTH to its pad, without the ICRC. It checks all
// that can be known without a queue pair: version, opcode, that each header is
// there whole, that pad and payload fit the opcode. What remains for the queue
// pair is p.Info.Payload.OK with its own MTU.
//
// An error is always a Reason. For ReasonOpcode and later ones the BTH (and for
// ReasonPad and later ones the extended headers) are valid all the same, so that
// a responder can refuse the request by its sequence number.
func ParseAs(t Transport, b []byte) (p Packet, err error) { return ParseApart(t, b, b) }

// MaxHeaders is no less than the headers of any packet that can be parsed.
const MaxHeaders = 64

// ParseApart is ParseAs for a packet b in memory that others may change at any time. The
// first MaxHeaders bytes of it, or all if there are fewer, have been copied to head: headers
// are read from there alone, and of b nothing is, but that the payload is part of it.
func ParseApart(t Transport, head, b []byte) (p Packet, err error) {
	if len(b) < BTHSize {
		return Packet{}, ReasonShort
	}
	bth := BTH(head[:BTHSize:BTHSize])
	op := bth.Opcode()
	switch {
	case bth.Version() != 0:
		return Packet{}, ReasonVersion
	case op == CongestionNotification:
		return Packet{}, ReasonCongestion
	case op.Transport() != t:
		return Packet{}, ReasonTransport
	}
	p.BTH, p.Info = bth, op.Info()
	if p.Info.Kind == KindNone {
		return p, ReasonOpcode
	}
	end := BTHSize + p.Info.Headers.Size()
	if len(b) < end {
		return p, ReasonHeaders
	}
	p.ext = head[BTHSize:end:end]
	rest, pad := b[end:], bth.Pad()
	if pad > len(rest) || pad != 0 && p.Info.Payload <= FullMTU {
		return p, ReasonPad
	}
	if len(rest)%4 != 0 {
		return p, ReasonLength
	}
	n := len(rest) - pad
	p.Payload = rest[:n:n]
	if !payloadPossible(p.Info.Payload, n) {
		return p, ReasonPayload
	}
	return p, nil
}

// payloadPossible reports whether some MTU makes n obey the rule.
func payloadPossible(r PayloadRule, n int) bool {
	if r == FullMTU {
		r = OneToMTU
	}
	return r.OK(n, MaxMTU)
}

// ParseWire is Parse for a packet that ends with its ICRC, which it returns and
// does not check.
func ParseWire(b []byte) (p Packet, icrc uint32, err error) {
	if len(b) < BTHSize+ICRCSize {
		return Packet{}, 0, ReasonShort
	}
	end := len(b) - ICRCSize
	p, err = Parse(b[:end:end])
	return p, binary.LittleEndian.Uint32(b[end:]), err
}

// RETH returns the RDMA header, nil where the opcode has none.
func (p *Packet) RETH() RETH { return RETH(p.extended(HasRETH, RETHSize)) }

// AtomicETH returns the header of an atomic request, nil where the opcode has none.
func (p *Packet) AtomicETH() AtomicETH {
	return AtomicETH(p.extended(HasAtomicETH, AtomicETHSize))
}

// AETH returns the acknowledgement header, nil where the opcode has none.
func (p *Packet) AETH() AETH { return AETH(p.extended(HasAETH, AETHSize)) }

// AtomicAckETH returns an atomic's result, nil where the opcode has none.
func (p *Packet) AtomicAckETH() AtomicAckETH {
	return AtomicAckETH(p.extended(HasAtomicAckETH, AtomicAckETHSize))
}

// DETH returns the datagram header, nil where the opcode has none.
func (p *Packet) DETH() DETH { return DETH(p.extended(HasDETH, DETHSize)) }

// ImmDt returns the immediate data, nil where the opcode has none.
func (p *Packet) ImmDt() ImmDt { return ImmDt(p.extended(HasImmDt, ImmDtSize)) }

// IETH returns the key to invalidate, nil where the opcode has none.
func (p *Packet) IETH() IETH { return IETH(p.extended(HasIETH, IETHSize)) }

// extended finds one header behind those of lower bits.
func (p *Packet) extended(h Headers, size int) []byte {
	if p.Info.Headers&h == 0 || p.ext == nil {
		return nil
	}
	at := (p.Info.Headers & (h - 1)).Size()
	return p.ext[at : at+size : at+size]
}
