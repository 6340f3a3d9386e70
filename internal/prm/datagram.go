package prm

import "encoding/binary"

// Address is the address vector of a datagram, 48 bytes behind the control segment
// (mlx5dv.h, struct mlx5_wqe_av):
//
//	 0  Q_Key(32)
//	 4  0(32)
//	 8  extended(1) 0(7) queue pair(24)
//	12  static rate(4) service level(4), MLID(8), LID or UDP source port(16)
//	16  0(32)
//	20  MAC(48), traffic class(8), hop limit(8)
//	28  0(1) GRH(1) 0(2) source GID index(8) flow label(20)
//	32  GID(128)
//
// On Ethernet there is always a GRH, and its bit is not used; the service level is
// the priority, in the upper three of its bits.
type Address struct {
	QKey         uint32
	QPN          uint32
	Rate         uint8 // 4 bits
	ServiceLevel uint8 // 4 bits
	PathBits     uint8
	LID          uint16 // or UDP source port
	MAC          [6]byte
	TrafficClass uint8
	HopLimit     uint8
	GRH          bool
	SourceIndex  uint8  // of the GID table
	FlowLabel    uint32 // 20 bits
	GID          [16]byte
}

// AddressSize is the size of an address vector, in bytes.
const AddressSize = 3 * Unit

// ControlledQKey is the bit of a datagram's Q_Key that stands for the Q_Key of the
// queue pair that sends it.
const ControlledQKey = 1 << 31

// Bits of the words of an address vector.
const (
	extendedAddress = 1 << 31 // MLX5_EXTENDED_UD_AV
	addressGRH      = 1 << 30
	flowLabelMask   = 1<<20 - 1
)

// PutAddress writes an address vector to the first AddressSize bytes of seg. Numbers
// must be in range.
func PutAddress(seg []byte, a *Address) {
	s := (*[AddressSize]byte)(seg)
	clear(s[:])
	binary.BigEndian.PutUint32(s[0:], a.QKey)
	binary.BigEndian.PutUint32(s[8:], a.QPN|extendedAddress)
	s[12], s[13] = a.Rate<<4|a.ServiceLevel, a.PathBits
	binary.BigEndian.PutUint16(s[14:], a.LID)
	copy(s[20:], a.MAC[:])
	s[26], s[27] = a.TrafficClass, a.HopLimit
	route := uint32(a.SourceIndex)<<20 | a.FlowLabel
	if a.GRH {
		route |= addressGRH
	}
	binary.BigEndian.PutUint32(s[28:], route)
	copy(s[32:], a.GID[:])
}

// ParseDatagram is ParseSend for the queue of a datagram queue pair: of its
// operations SEND, with or without immediate, have an address vector.
func ParseDatagram(wqe []byte, s *Send) error {
	*s = Send{Segments: s.Segments[:0]}
	var err error
	if s.Ctrl, err = ParseCtrl(wqe); err != nil {
		return err
	}
	if s.Opcode != OpNop && s.Opcode != OpSend && s.Opcode != OpSendImm {
		return s.bad(UnknownOpcode, 3, uint64(s.Opcode))
	}
	if err := s.checkCtrl(wqe); err != nil {
		return err
	}
	end := int(s.DS) * Unit
	switch {
	case len(wqe) < end:
		return s.bad(Truncated, 4, uint64(len(wqe)))
	case s.Opcode == OpNop:
		return nil
	case end < Unit+AddressSize:
		return s.bad(BadSize, 7, uint64(s.DS))
	}
	if err := s.parseAddress(wqe, Unit); err != nil {
		return err
	}
	return s.parseData(wqe[:end], Unit+AddressSize)
}

func (s *Send) parseAddress(wqe []byte, off int) error {
	v := (*[AddressSize]byte)(wqe[off:])
	number, route := binary.BigEndian.Uint32(v[8:]), binary.BigEndian.Uint32(v[28:])
	switch {
	case number&extendedAddress == 0:
		return s.bad(ShortAddress, off+8, uint64(number))
	case number&^(extendedAddress|MaxNumber) != 0:
		return s.bad(ReservedBits, off+8, uint64(number))
	case binary.BigEndian.Uint32(v[4:]) != 0:
		return s.bad(ReservedBits, off+4, uint64(binary.BigEndian.Uint32(v[4:])))
	case binary.BigEndian.Uint32(v[16:]) != 0:
		return s.bad(ReservedBits, off+16, uint64(binary.BigEndian.Uint32(v[16:])))
	case route&^(addressGRH|0xff<<20|flowLabelMask) != 0:
		return s.bad(ReservedBits, off+28, uint64(route))
	}
	s.Address = Address{
		QKey: binary.BigEndian.Uint32(v[0:]), QPN: number & MaxNumber,
		Rate: v[12] >> 4, ServiceLevel: v[12] & 15, PathBits: v[13], LID: binary.BigEndian.Uint16(v[14:]),
		MAC: [6]byte(v[20:]), TrafficClass: v[26], HopLimit: v[27],
		GRH: route&addressGRH != 0, SourceIndex: uint8(route >> 20), FlowLabel: route & flowLabelMask,
		GID: [16]byte(v[32:]),
	}
	return nil
}
