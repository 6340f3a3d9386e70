package qp

import "github.com/farwire/farwire/internal/prm"

// opcodes are the hardware's numbers of the operations.
var opcodes = [8]prm.Opcode{
	Send: prm.OpSend, SendImm: prm.OpSendImm,
	Write: prm.OpWrite, WriteImm: prm.OpWriteImm,
	Read: prm.OpRead, CompareSwap: prm.OpCompareSwap, FetchAdd: prm.OpFetchAdd,
}

// hasRemote reports whether entries of o have a remote address segment.
func hasRemote(o Op) bool { return o >= Write }

// isAtomic reports whether entries of o have an atomic segment.
func isAtomic(o Op) bool { return o >= CompareSwap }

// imm is the last word of the entry's control segment.
func imm(e *Entry) uint32 {
	if e.Op == SendImm || e.Op == WriteImm {
		return e.Imm
	}
	return 0
}

// flags are those of the entry's control segment.
func flags(e *Entry) (f uint8) {
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
