package roce

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// Path is what the ICRC covers outside the packet itself: the fields of the IP
// and UDP headers that no router changes. The addresses are of one family; an
// IPv4 address mapped into IPv6 counts as IPv4 (a GID is written so).
type Path struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	ID               uint16 // IPv4 identification
	MayFragment      bool   // IPv4: the don't-fragment bit is not set
}

// Layout of the bytes an ICRC begins with (annex A17.3.3): the last eight bytes
// of a missing LRH as ones, then the headers with the mutable fields as ones.
const (
	ipv4Size = 20
	ipv6Size = 40
	udpSize  = 8

	// The register after eight bytes of ones.
	icrcSeed = 0xdebb20e3

	protocolUDP  = 17
	dontFragment = 0x4000
)

// ICRC computes the invariant CRC of a packet, b being BTH to pad. The IP and UDP
// lengths it covers are those of b with the CRC behind it. b must hold a BTH.
func ICRC(path *Path, b []byte) uint32 {
	var scratch [ipv6Size + udpSize + BTHSize]byte
	head := path.appendHeaders(scratch[:0], len(b)+ICRCSize)
	at := len(head)
	head = append(head, b[:BTHSize]...)
	head[at+bthMarks] = 0xff
	return crc32.Update(^short(icrcSeed, head), crc32.IEEETable, b[BTHSize:])
}

// AppendICRC appends to b, a packet from BTH to pad, its ICRC. It allocates only
// when b has no room.
func AppendICRC(path *Path, b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, ICRC(path, b))
}

// CheckICRC reports whether b, a packet from BTH to ICRC, arrived as it was sent
// by way of path, of which everything is known.
func CheckICRC(path *Path, b []byte) bool {
	if len(b) < BTHSize+ICRCSize {
		return false
	}
	end := len(b) - ICRCSize
	return ICRC(path, b[:end:end]) == binary.LittleEndian.Uint32(b[end:])
}

// short runs the CRC register over a few bytes. It is slower than the standard
// library, whose argument would have to be on the heap.
func short(register uint32, b []byte) uint32 {
	for _, v := range b {
		register = crc32.IEEETable[byte(register)^v] ^ register>>8
	}
	return register
}

// appendHeaders appends the IP and UDP headers of a packet of n bytes, BTH to
// ICRC, as the ICRC sees them.
func (p *Path) appendHeaders(b []byte, n int) []byte {
	be := binary.BigEndian
	n += udpSize
	if src, dst := p.Src.Unmap(), p.Dst.Unmap(); src.Is4() && dst.Is4() {
		b = append(b, 0x45, 0xff)
		b = be.AppendUint16(b, uint16(ipv4Size+n))
		b = be.AppendUint32(b, p.fragmentField())
		b = append(b, 0xff, protocolUDP, 0xff, 0xff)
		s, d := src.As4(), dst.As4()
		b = append(append(b, s[:]...), d[:]...)
	} else {
		b = append(b, 0x6f, 0xff, 0xff, 0xff)
		b = be.AppendUint16(b, uint16(n))
		b = append(b, protocolUDP, 0xff)
		s, d := p.Src.As16(), p.Dst.As16()
		b = append(append(b, s[:]...), d[:]...)
	}
	b = be.AppendUint16(b, p.SrcPort)
	b = be.AppendUint16(b, p.DstPort)
	b = be.AppendUint16(b, uint16(n))
	return append(b, 0xff, 0xff)
}

// fragmentField is the identification and fragment fields of IPv4 as one big endian word.
func (p *Path) fragmentField() uint32 {
	field := uint32(p.ID) << 16
	if !p.MayFragment {
		field |= dontFragment
	}
	return field
}
