package pcap

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"time"
)

// Local is what stands before a packet of an InfiniBand subnet. SL and VL are 0.
type Local struct {
	SrcLID, DstLID uint16
	// SrcGID and DstGID, IPv6 addresses, and the traffic class are of the global route
	// header. Not valid: the packet has none.
	SrcGID, DstGID netip.Addr
	TClass         uint8
}

// Layout of a packet of a subnet (InfiniBand specification, 7.7 and 7.8).
const (
	lrhSize, grhSize = 8, 40
	icrcSize         = 4

	// What follows the local route header (LNH).
	lnhTransport, lnhGlobal = 2, 3

	// Fields that switches and routers change, which the ICRC takes for ones.
	lrhVL        = 0xf0       // in byte 0
	grhMutable   = 0x0fffffff // traffic class and flow label
	grhHopLimit  = 7          // a byte of the GRH
	bthReserved8 = 4          // a byte of the BTH
)

// Append appends a whole packet, from its local route header to its variant CRC; b is
// what is between, from BTH to pad. It must hold a BTH.
func (l *Local) Append(record, b []byte) []byte {
	be, start, n := binary.BigEndian, len(record), len(b)+icrcSize
	next, bth := byte(lnhTransport), start+lrhSize
	if l.SrcGID.IsValid() {
		next, bth = lnhGlobal, bth+grhSize
	}
	record = append(record, 0, next)
	record = be.AppendUint16(record, l.DstLID)
	record = be.AppendUint16(record, uint16((bth-start+n)/4))
	record = be.AppendUint16(record, l.SrcLID)
	if next == lnhGlobal {
		h := Header{Src: l.SrcGID, Dst: l.DstGID, TClass: l.TClass}
		record = h.AppendIP(record, BTH, n)
	}
	record = append(record, b...)
	record = binary.LittleEndian.AppendUint32(record, invariantCRC(record[start:], bth-start))
	return binary.LittleEndian.AppendUint16(record, variantCRC(record[start:]))
}

// The header in front of a packet (Endace, ERF types reference guide). Wireshark reads
// InfiniBand from files of no other kind, and ibdump writes none.
const (
	erfSize       = 16
	erfInfiniBand = 21
	erfVaries     = 4 // records have the length they need
)

// putERF writes the header to the beginning of a record, header and packet.
func putERF(record []byte, now time.Time) {
	le, be := binary.LittleEndian, binary.BigEndian
	le.PutUint32(record[0:], uint32((uint64(now.Nanosecond())<<32)/uint64(time.Second)))
	le.PutUint32(record[4:], uint32(now.Unix()))
	record[8], record[9] = erfInfiniBand, erfVaries
	be.PutUint16(record[10:], uint16(len(record)))
	be.PutUint16(record[14:], uint16(len(record)-erfSize))
}

// invariantCRC is the ICRC of a packet, from its local route header to its pad, whose BTH
// is at bth. The fields it takes for ones are so while it works.
func invariantCRC(b []byte, bth int) uint32 {
	be, global := binary.BigEndian, bth > lrhSize
	lrh, reserved := be.Uint64(b), b[bth+bthReserved8]
	b[0] |= lrhVL
	b[bth+bthReserved8] = 0xff
	var class uint32
	var hops byte
	if global {
		class, hops = be.Uint32(b[lrhSize:]), b[lrhSize+grhHopLimit]
		be.PutUint64(b, ^uint64(0))
		be.PutUint32(b[lrhSize:], class|grhMutable)
		b[lrhSize+grhHopLimit] = 0xff
	}
	c := crc32.ChecksumIEEE(b)
	be.PutUint64(b, lrh)
	b[bth+bthReserved8] = reserved
	if global {
		be.PutUint32(b[lrhSize:], class)
		b[lrhSize+grhHopLimit] = hops
	}
	return c
}

// variantCRC is the VCRC of a packet that ends with its ICRC: the polynomial 0x100b, its
// bits in the order of those of the ICRC.
func variantCRC(b []byte) uint16 {
	c := ^uint16(0)
	for _, v := range b {
		c = vcrcTable[byte(c)^v] ^ c>>8
	}
	return ^c
}

var vcrcTable = func() (t [256]uint16) {
	const reversed = 0xd008
	for i := range t {
		c := uint16(i)
		for range 8 {
			c = c>>1 ^ reversed*(c&1)
		}
		t[i] = c
	}
	return t
}()
