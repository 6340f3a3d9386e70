package roce

import "encoding/binary"

// BTH is the base transport header (spec volume 1, section 9.2), the first 12
// bytes of every packet:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	|    OpCode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B| reserved  |              destination QP                   |
//	+-+-+-----------+-----------------------------------------------+
//	|A|  reserved   |             packet sequence number            |
//	+-+-------------+-----------------------------------------------+
//
// S solicited event, M migration request, F and B congestion marks, A
// acknowledgement wanted. Byte 4 is not covered by the ICRC. Reserved bits are
// sent as zero and not looked at on receipt.
type BTH []byte

// Offsets and bits of the BTH.
const (
	BTHSize = 12

	bthOpcode = 0
	bthFlags  = 1
	bthPKey   = 2
	bthMarks  = 4
	bthDestQP = 4 // the low 24 bits of the word
	bthAck    = 8
	bthPSN    = 8 // the low 24 bits of the word

	bthSolicited    = 0x80
	bthMigration    = 0x40
	bthPadShift     = 4
	bthPadMask      = 0x3
	bthVersionMask  = 0x0f
	bthFECN         = 0x80
	bthBECN         = 0x40
	bthAckRequested = 0x80

	mask24 = 1<<24 - 1
)

// DefaultPKey is the default partition, full membership.
const DefaultPKey = 0xffff

// Opcode returns the transport and operation.
func (b BTH) Opcode() Opcode { return Opcode(b[bthOpcode]) }

// Solicited reports the solicited event bit.
func (b BTH) Solicited() bool { return b[bthFlags]&bthSolicited != 0 }

// Migration reports the migration request bit, which ConnectX sets and others
// do not; it means nothing without automatic path migration.
func (b BTH) Migration() bool { return b[bthFlags]&bthMigration != 0 }

// Pad returns the number of pad bytes after the payload, 0 to 3.
func (b BTH) Pad() int { return int(b[bthFlags] >> bthPadShift & bthPadMask) }

// Version returns the transport header version; only 0 exists.
func (b BTH) Version() uint8 { return b[bthFlags] & bthVersionMask }

// PKey returns the partition key.
func (b BTH) PKey() uint16 { return binary.BigEndian.Uint16(b[bthPKey:]) }

// FECN reports the forward congestion mark.
func (b BTH) FECN() bool { return b[bthMarks]&bthFECN != 0 }

// BECN reports the backward congestion mark.
func (b BTH) BECN() bool { return b[bthMarks]&bthBECN != 0 }

// DestQP returns the 24-bit destination queue pair number.
func (b BTH) DestQP() uint32 { return binary.BigEndian.Uint32(b[bthDestQP:]) & mask24 }

// AckRequested reports whether the sender wants an acknowledgement.
func (b BTH) AckRequested() bool { return b[bthAck]&bthAckRequested != 0 }

// PSN returns the 24-bit packet sequence number.
func (b BTH) PSN() uint32 { return binary.BigEndian.Uint32(b[bthPSN:]) & mask24 }

// put writes the whole header; pad is 0 to 3.
func (b BTH) put(h *Header, pad int) {
	flags := byte(pad) << bthPadShift
	if h.Solicited {
		flags |= bthSolicited
	}
	if h.Migration {
		flags |= bthMigration
	}
	b[bthOpcode] = byte(h.Opcode)
	b[bthFlags] = flags
	pkey := h.PKey
	if pkey == 0 {
		pkey = DefaultPKey
	}
	binary.BigEndian.PutUint16(b[bthPKey:], pkey)
	binary.BigEndian.PutUint32(b[bthDestQP:], h.DestQP&mask24)
	if h.FECN {
		b[bthMarks] |= bthFECN
	}
	if h.BECN {
		b[bthMarks] |= bthBECN
	}
	binary.BigEndian.PutUint32(b[bthPSN:], h.PSN&mask24)
	if h.AckRequested {
		b[bthAck] |= bthAckRequested
	}
}
