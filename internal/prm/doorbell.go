package prm

import "encoding/binary"

// A doorbell record is two big-endian words of host memory, 8-byte aligned and
// within a page, that the NIC reads. These are the indices of its words.
const (
	RecordReceive = 0 // receives posted, low 16 bits (a shared receive queue's: all 32)
	RecordSend    = 1 // blocks posted to the send queue, low 16 bits
	RecordCI      = 0 // completions consumed, low 24 bits
	RecordArm     = 1 // the last arm value

	RecordSize = 8
)

// A doorbell page (UAR) of the NIC, 4 KiB whatever the host's page is. A page
// has four registers of BlueFlameSize bytes each from SendRegister on, of which
// user space has the first UserRegisters. A register has two halves that
// successive doorbells must alternate between.
const (
	PageSize      = 4096
	ArmRegister   = 0x20
	SendRegister  = 0x800
	PageRegisters = 4
	UserRegisters = 2
)

// The bits of an arm value: sequence number 29:28, solicited 24, consumer index 23:0.
const (
	armSolicited = 1 << 24
	armReserved  = 0xce << 24
)

// ArmValue asks for an event at the next completion after the first ci, or at
// the next solicited one. sn counts the events taken from the channel for this
// queue, of which two bits are used; ci counts what was consumed, of which 24 are.
func ArmValue(sn uint32, solicited bool, ci uint32) uint32 {
	v := sn&3<<28 | ci&MaxNumber
	if solicited {
		v |= armSolicited
	}
	return v
}

// ParseArm takes an arm value apart; ok is false if reserved bits are set.
func ParseArm(v uint32) (sn uint8, solicited bool, ci uint32, ok bool) {
	return uint8(v >> 28 & 3), v&armSolicited != 0, v & MaxNumber, v&armReserved == 0
}

// ArmDoorbell is what is stored at ArmRegister, in memory order, to make the
// arm value of the completion queue cqn known.
func ArmDoorbell(value, cqn uint32) uint64 {
	return BE64(uint64(value)<<32 | uint64(cqn))
}

// ParseArmDoorbell is the arm value and the completion queue of a word loaded
// from ArmRegister. The number may have more than 24 bits if the word was not a
// doorbell.
func ParseArmDoorbell(word uint64) (value, cqn uint32) {
	v := BE64(word)
	return uint32(v >> 32), uint32(v)
}

// SendDoorbell is what is stored in a send register, in memory order, after
// entries were posted: the first 8 bytes of the last entry's control segment.
func SendDoorbell(ctrl []byte) uint64 { return binary.NativeEndian.Uint64(ctrl) }

// ParseSendDoorbell is the part of a control segment that a word loaded from a
// send register holds.
func ParseSendDoorbell(word uint64) Ctrl {
	v := BE64(word)
	return Ctrl{
		OpMod:  uint8(v >> 56),
		Index:  uint16(v >> 40),
		Opcode: Opcode(v >> 32),
		QPN:    uint32(v) >> 8,
		DS:     uint8(v),
	}
}
