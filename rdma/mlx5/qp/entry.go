package qp

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// Op is what an entry does.
type Op = cq.Op

// The operations of entries.
const (
	Send        = cq.Send        // bytes into the peer's oldest receive
	SendImm     = cq.SendImm     // the same, and Imm for the peer's completion
	Write       = cq.Write       // bytes to Remote
	WriteImm    = cq.WriteImm    // the same, and Imm, which uses up a receive of the peer
	Read        = cq.Read        // bytes from Remote
	CompareSwap = cq.CompareSwap // the 8 bytes at Remote become Swap if they are Compare
	FetchAdd    = cq.FetchAdd    // Add is added to the 8 bytes at Remote
)

// Ring names one of a queue pair's rings.
type Ring = cq.Ring

// The rings of a queue pair.
const (
	Sends    = cq.Sends
	Receives = cq.Receives
)

// Entry is one operation. The zero values of the fields that Op has no use for
// are right.
type Entry struct {
	Op Op
	ID uint64 // the caller's, for the completion

	// Local is this process's memory: what to send or write, or where to put what
	// is read; for the atomics, 8 bytes for what was there before. Locals go on
	// where Local ends. Segments of no bytes do not count. The memory must stay
	// registered and, to be sent, unchanged until the entry completes.
	Local  region.Segment
	Locals []region.Segment

	// Inline is bytes to send or write instead of Local and Locals. They are
	// copied into the ring, so the slice may be any memory and is free when Post
	// returns.
	Inline []byte

	Remote region.Target // memory of the peer: of all but Send and SendImm
	Imm    uint32        // of SendImm and WriteImm

	Compare, Swap uint64 // of CompareSwap
	Add           uint64 // of FetchAdd

	Signaled  bool // completes also in success, and with it all entries before
	Fence     bool // starts only when all reads and atomics before it are done
	Solicited bool // wakes a peer that waits for solicited events: of Send, SendImm, WriteImm
}

// opcodes are the hardware's numbers of the operations.
var opcodes = [...]prm.Opcode{
	Send: prm.OpSend, SendImm: prm.OpSendImm,
	Write: prm.OpWrite, WriteImm: prm.OpWriteImm,
	Read: prm.OpRead, CompareSwap: prm.OpCompareSwap, FetchAdd: prm.OpFetchAdd,
}

// flags are those of the entry's control segment.
func (e *Entry) flags() (f uint8) {
	if e.Signaled {
		f |= prm.CQEUpdate
	}
	if e.Fence {
		f |= prm.Fence
	}
	if e.Solicited {
		f |= prm.Solicited
	}
	return f
}
