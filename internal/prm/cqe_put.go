package prm

import "encoding/binary"

// Completion is what a NIC writes into a completion queue entry. Fields that the
// opcode has no use for are 0; the entry of an error has only the fields up to
// WQECounter and the syndromes.
type Completion struct {
	Opcode         CQEOpcode
	Owner          uint8 // 0 or 1
	Solicited      bool
	QPN            uint32
	SendOpcode     Opcode
	UserIndex      uint32 // or shared receive queue number
	WQECounter     uint16
	Syndrome       Syndrome
	VendorSyndrome uint8
	ByteCount      uint32
	Imm            uint32
	RemoteQPN      uint32
	GRH            bool
	SourceLID      uint16
	Priority       uint8 // 0 to 15
	Format         CQEFormat
	Inline         []byte // of CQEInline32 and CQEInline64, no more than the format holds
	Timestamp      uint64
}

// PutCQE writes all of an entry but its last word to the first CQESize bytes of
// dst; the last word keeps its value. The data of CQEInline64 lies in front of
// them, and is not written. The entry becomes valid when LastWord is
// stored at CQELastWord afterwards.
func PutCQE(dst []byte, c Completion) {
	e := (*[CQESize]byte)(dst)
	clear(e[:CQELastWord])
	binary.BigEndian.PutUint32(e[cqeUser:], c.UserIndex&MaxNumber)
	binary.BigEndian.PutUint32(e[cqeNumber:], uint32(c.SendOpcode)<<24|c.QPN&MaxNumber)
	if c.Opcode.IsError() {
		e[cqeVendor], e[cqeSyndrome] = c.VendorSyndrome, byte(c.Syndrome)
		return
	}
	binary.BigEndian.PutUint16(e[cqeSourceLID:], c.SourceLID)
	remote := uint32(c.Priority&15)<<24 | c.RemoteQPN&MaxNumber
	if c.GRH {
		remote |= 1 << 28
	}
	binary.BigEndian.PutUint32(e[cqeRemote:], remote)
	if c.Format == CQEInline32 {
		clear(e[copy(e[:Inline32], c.Inline):Inline32])
	}
	binary.BigEndian.PutUint32(e[cqeImm:], c.Imm)
	binary.BigEndian.PutUint32(e[cqeBytes:], c.ByteCount)
	binary.BigEndian.PutUint64(e[cqeTimestamp:], c.Timestamp)
}

// LastWord is the last word of the entry in memory order: one aligned 32-bit
// store of it puts counter, signature (0) and owner byte in place.
func LastWord(c Completion) uint32 {
	own := uint32(c.Opcode)<<4 | uint32(c.Format&3)<<2 | uint32(c.Owner&1)
	if c.Solicited {
		own |= 2
	}
	return BE32(uint32(c.WQECounter)<<16 | own)
}

// OwnByte is the owner byte of an entry whose last word was loaded as one
// aligned 32-bit word.
func OwnByte(lastWord uint32) uint8 { return uint8(BE32(lastWord)) }

// Kind is what an entry is by its owner byte: opcode and format, without the bits of
// owner and solicited event.
type Kind uint8

// The kinds of successes, of format CQEPlain.
const (
	KindSent        = Kind(CQERequester << 2)
	KindReceived    = Kind(CQEReceive << 2)
	KindReceivedImm = Kind(CQEReceiveImm << 2)
	KindWritten     = Kind(CQEWriteImm << 2) // with immediate
)

// ParseLastWord is what is in the last word of an entry, loaded as one aligned
// 32-bit word.
func ParseLastWord(word uint32) (counter uint16, k Kind, solicited bool) {
	v := BE32(word)
	return uint16(v >> 16), Kind(uint8(v) >> 2), v&2 != 0
}

// CQEWords is a completion queue entry as words in memory order. It has what a
// successful completion says.
type CQEWords [CQESize / 4]uint32

// Last is the word that makes the entry valid.
func (w *CQEWords) Last() *uint32 { return &w[CQELastWord/4] }

// Bytes is the same as bytes.
func (w *CQEWords) Bytes() CQE { return Bytes(w) }

// ByteCount is that of CQE.
func (w *CQEWords) ByteCount() uint32 { return BE32(w[cqeBytes/4]) }

// Imm is that of CQE.
func (w *CQEWords) Imm() uint32 { return BE32(w[cqeImm/4]) }
