package prm

import "encoding/binary"

// Flags of a control segment (mlx5dv.h, MLX5_WQE_CTRL_*).
const (
	Fence      uint8 = 0x80 // wait for the RDMA READs and atomics before it
	SmallFence uint8 = 0x20 // wait for the memory key changes before it
	CQEUpdate  uint8 = 0x08 // complete also in success
	Solicited  uint8 = 0x02 // the peer's completion is a solicited one

	controlFlags = Fence | SmallFence | CQEUpdate | Solicited
)

// Largest values that the fields of a send queue entry hold.
const (
	MaxUnits  = 63        // DS, 6 bits: an entry is at most 1008 bytes
	MaxNumber = 1<<24 - 1 // queue pair, completion queue and user index numbers
	MaxLength = 1<<31 - 1 // bytes of one data segment; bit 31 marks an inline one
)

// inlineFlag marks the byte count of an inline segment (MLX5_INLINE_SEG).
const inlineFlag = 1 << 31

// terminatorKey is the lkey of a terminator (MLX5_INVALID_LKEY).
const terminatorKey = 0x100

// Ctrl is the control segment, the first of every send queue entry:
//
//	 0  opmod(8) index(16) opcode(8)
//	 4  queue pair(24) 0(2) DS(6)
//	 8  signature(8) stream(16) flags(8)
//	12  immediate
//
// Index is the send queue's counter of blocks at the entry's first block, DS the
// entry's length in units. Imm is the immediate as a number, sent in network
// order, or the rkey to invalidate. Signature and stream are not used and 0.
type Ctrl struct {
	Opcode Opcode
	OpMod  uint8
	Index  uint16
	QPN    uint32
	DS     uint8
	Flags  uint8
	Imm    uint32
}

// Segment is a data segment: Length bytes of local memory at Addr, under LKey.
// Length is 1 to MaxLength: an empty piece of a message gets no segment, since
// the hardware takes a 0 for 2^31.
type Segment struct {
	Addr   uint64
	LKey   uint32
	Length uint32
}

// CtrlWords is a control segment with no modifier, as two words in memory order:
// stored as they are, they put the segment's bytes in place. The queue pair's number
// and the units must be in range.
func CtrlWords(op Opcode, index uint16, qpn uint32, units, flags uint8, imm uint32) (first, second uint64) {
	return NewCtrlBase(op, qpn).Words(index, units, flags, imm)
}

// CtrlBase is what control segments of one operation on one queue pair have in common.
type CtrlBase uint64

// NewCtrlBase is the CtrlBase of a queue pair, whose number must be in range.
func NewCtrlBase(op Opcode, qpn uint32) CtrlBase { return CtrlBase(op)<<32 | CtrlBase(qpn)<<8 }

// Words is CtrlWords with the rest of the segment.
func (c CtrlBase) Words(index uint16, units, flags uint8, imm uint32) (first, second uint64) {
	return BE64(uint64(index)<<40 | uint64(c) | uint64(units)), BE64(uint64(flags)<<32 | uint64(imm))
}

// RemoteWords is a remote address segment, as CtrlWords is a control segment.
func RemoteWords(addr uint64, rkey uint32) (first, second uint64) {
	return BE64(addr), BE64(uint64(rkey) << 32)
}

// AtomicWords is an atomic segment, as CtrlWords is a control segment. For
// OpCompareSwap swapAdd is swapped in where compare is found; for OpFetchAdd swapAdd
// is added and compare not used.
func AtomicWords(swapAdd, compare uint64) (first, second uint64) { return BE64(swapAdd), BE64(compare) }

// DataWords is a data segment, as CtrlWords is a control segment.
func DataWords(addr uint64, lkey, length uint32) (first, second uint64) {
	return BE64(uint64(length)<<32 | uint64(lkey)), BE64(addr)
}

// TerminatorWords is the segment that ends a receive's list before its stride is full.
func TerminatorWords() (first, second uint64) { return DataWords(0, terminatorKey, 0) }

// PutCtrl writes a control segment to the first unit of seg. QPN and DS must be
// in range.
func PutCtrl(seg []byte, c *Ctrl) {
	first, second := CtrlWords(c.Opcode, c.Index, c.QPN, c.DS, c.Flags, c.Imm)
	putWords(seg, first, second)
	seg[0] = c.OpMod
}

// PutRemote writes a remote address segment to the first unit of seg.
func PutRemote(seg []byte, addr uint64, rkey uint32) {
	first, second := RemoteWords(addr, rkey)
	putWords(seg, first, second)
}

// PutAtomic writes an atomic segment to the first unit of seg, as AtomicWords has it.
func PutAtomic(seg []byte, swapAdd, compare uint64) {
	first, second := AtomicWords(swapAdd, compare)
	putWords(seg, first, second)
}

// PutData writes a data segment to the first unit of seg.
func PutData(seg []byte, d Segment) {
	first, second := DataWords(d.Addr, d.LKey, d.Length)
	putWords(seg, first, second)
}

func putWords(seg []byte, first, second uint64) {
	s := (*[Unit]byte)(seg)
	binary.NativeEndian.PutUint64(s[0:], first)
	binary.NativeEndian.PutUint64(s[8:], second)
}

// InlineHeader is the size of the word in front of inline bytes.
const InlineHeader = 4

// PutInlineHeader writes the head of an inline segment of n bytes, n > 0, to the
// first InlineHeader bytes of seg. The bytes follow it, and go on at the ring's
// start where they reach its end.
func PutInlineHeader(seg []byte, n int) {
	binary.BigEndian.PutUint32(seg, uint32(n)|inlineFlag)
}

// InlineWord is what PutInlineHeader writes, and InlineHeader bytes of 0 behind it, as
// CtrlWords is a control segment.
func InlineWord(n int) uint64 { return BE64((uint64(n) | inlineFlag) << 32) }

// InlineUnits is the length of an inline segment of n bytes, in units.
func InlineUnits(n int) int { return int(uint(InlineHeader+n+Unit-1) / Unit) }

// PutTerminator writes the segment that ends a receive's list before its stride
// is full to the first unit of seg.
func PutTerminator(seg []byte) {
	first, second := TerminatorWords()
	putWords(seg, first, second)
}

// PutNext writes the link to the next entry, which a shared receive queue's
// entries start with, to the first unit of seg.
func PutNext(seg []byte, next uint16) {
	first, second := NextWords(next)
	putWords(seg, first, second)
}

// NextWords is what PutNext writes, as CtrlWords is a control segment.
func NextWords(next uint16) (first, second uint64) { return BE64(uint64(next) << 32), 0 }
