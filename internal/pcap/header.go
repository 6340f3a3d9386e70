package pcap

import (
	"encoding/binary"
	"net/netip"
)

// Header is what stands before a UDP datagram's payload in an Ethernet frame. The
// addresses are of one family.
type Header struct {
	SrcMAC, DstMAC   [6]byte
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	TClass           uint8  // IPv4 type of service, or IPv6 traffic class
	ID               uint16 // IPv4 identification
	MayFragment      bool   // IPv4
}

// Numbers and sizes of headers (RFC 894, 2464, 791, 8200, 768).
const (
	typeIPv4, typeIPv6 = 0x0800, 0x86dd
	ipv4Size, udpSize  = 20, 8
	dontFragment       = 1 << 14
	hopLimit           = 64 // that of Linux
)

// What may follow an IP header.
const (
	UDP = 17
	BTH = 27 // behind a GRH, which has the form of an IPv6 header
)

// Append appends the headers of a datagram with this payload. Over IPv4 it has no
// UDP checksum, as RoCE packets usually have none; over IPv6 it has one.
func (h *Header) Append(b, payload []byte) []byte {
	be := binary.BigEndian
	b = append(append(b, h.DstMAC[:]...), h.SrcMAC[:]...)
	n := uint16(udpSize + len(payload))
	if h.Src.Is4() {
		b = be.AppendUint16(b, typeIPv4)
	} else {
		b = be.AppendUint16(b, typeIPv6)
	}
	b = h.AppendIP(b, UDP, int(n))
	at := len(b)
	b = be.AppendUint16(b, h.SrcPort)
	b = be.AppendUint16(b, h.DstPort)
	b = be.AppendUint16(b, n)
	b = be.AppendUint16(b, 0)
	if !h.Src.Is4() {
		be.PutUint16(b[at+6:], h.checksum(b[at:], payload))
	}
	return b
}

// AppendIP appends the IP header alone, of a packet with n bytes behind it, the first of
// which belong to next.
func (h *Header) AppendIP(b []byte, next uint8, n int) []byte {
	be, at := binary.BigEndian, len(b)
	if !h.Src.Is4() {
		b = be.AppendUint32(b, 6<<28|uint32(h.TClass)<<20)
		b = be.AppendUint16(b, uint16(n))
		b = append(b, next, hopLimit)
		return appendAddrs(b, h.Src, h.Dst)
	}
	flags := uint16(dontFragment)
	if h.MayFragment {
		flags = 0
	}
	b = append(b, 0x45, h.TClass)
	b = be.AppendUint16(b, uint16(ipv4Size+n))
	b = be.AppendUint16(b, h.ID)
	b = be.AppendUint16(b, flags)
	b = append(b, hopLimit, next, 0, 0)
	b = appendAddrs(b, h.Src, h.Dst)
	be.PutUint16(b[at+10:], ^fold(sum(b[at:])))
	return b
}

func appendAddrs(b []byte, addrs ...netip.Addr) []byte {
	for _, a := range addrs {
		if a.Is4() {
			v := a.As4()
			b = append(b, v[:]...)
		} else {
			v := a.As16()
			b = append(b, v[:]...)
		}
	}
	return b
}

// checksum is that of a datagram over IPv6, which also covers a pseudo header.
func (h *Header) checksum(udp, payload []byte) uint16 {
	var space [32]byte
	s := sum(appendAddrs(space[:0], h.Src, h.Dst)) + uint32(udpSize+len(payload)) + UDP
	c := ^fold(s + sum(udp) + sum(payload))
	if c == 0 {
		return 0xffff // 0 would say that there is none
	}
	return c
}

// sum adds up the 16-bit words of b; fold makes 16 bits of a sum (RFC 1071).
func sum(b []byte) (s uint32) {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
