package rxeabi

import "structs"

// Opcodes of an entry (ib_verbs.h, enum ib_wr_opcode; ib_user_verbs.h, enum
// ib_uverbs_wr_opcode).
const (
	OpWrite       = 0
	OpWriteImm    = 1
	OpSend        = 2
	OpSendImm     = 3
	OpRead        = 4
	OpCompareSwap = 5
	OpFetchAdd    = 6
)

// Flags of an entry (ib_user_verbs.h, enum ib_uverbs_send_flags; ib_verbs.h, enum
// ib_send_flags).
const (
	FlagFence     = 1 << 0
	FlagSignaled  = 1 << 1
	FlagSolicited = 1 << 2
	FlagInline    = 1 << 3
)

// SendEntry is struct rxe_send_wqe; its segments, or its inline bytes, follow. The
// kernel keeps its own notes in it, some of which it reads before it has written
// them: all but what is named here must be zero.
type SendEntry struct {
	_          structs.HostLayout
	ID         uint64
	Reserved   uint32
	Opcode     uint32
	Flags      uint32
	Imm        [4]byte // wire order
	Op         [120]byte
	Status     uint32
	State      uint32
	IOVA       uint64 // the remote address once more
	Mask       uint32
	FirstPSN   uint32
	LastPSN    uint32
	AckLength  uint32
	SSN        uint32
	HasReadRes uint32
	DMA        DMA
}

// Remote is what SendEntry.Op holds of writes and reads.
type Remote struct {
	_        structs.HostLayout
	Addr     uint64
	RKey     uint32
	Reserved uint32
}

// Atomic is what SendEntry.Op holds of atomics.
type Atomic struct {
	_          structs.HostLayout
	Addr       uint64
	CompareAdd uint64
	Swap       uint64
	RKey       uint32
	Reserved   uint32
}

// ReceiveEntry is struct rxe_recv_wqe; its segments follow.
type ReceiveEntry struct {
	_        structs.HostLayout
	ID       uint64
	Reserved uint32
	Padding  uint32
	DMA      DMA
}

// DMA is struct rxe_dma_info: the memory of an entry, and how far the kernel is
// with it. Length and Rest are the bytes of all segments.
type DMA struct {
	_          structs.HostLayout
	Length     uint32
	Rest       uint32
	Segment    uint32
	Segments   uint32
	SegmentOff uint32
	Reserved   uint32
}

// Segment is struct rxe_sge.
type Segment struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	LKey   uint32
}
