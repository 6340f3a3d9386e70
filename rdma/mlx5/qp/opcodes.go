package qp

import "github.com/farwire/farwire/internal/prm"

// opcodes are the hardware's numbers of the operations.
var opcodes = [8]prm.Opcode{
	Send: prm.OpSend, SendImm: prm.OpSendImm,
	Write: prm.OpWrite, WriteImm: prm.OpWriteImm,
	Read: prm.OpRead, CompareSwap: prm.OpCompareSwap, FetchAdd: prm.OpFetchAdd,
}

// bases are what the control segments of each operation have in common.
func bases(qpn uint32) (b [8]prm.CtrlBase) {
	for op, code := range opcodes {
		b[op] = prm.NewCtrlBase(code, qpn)
	}
	return b
}

// hasRemote reports whether entries of o have a remote address segment.
func hasRemote(o Op) bool { return o >= Write }

// isAtomic reports whether entries of o have an atomic segment.
func isAtomic(o Op) bool { return o >= CompareSwap }

// immediate masks the last word of the entry's control segment: all bits of operations
// that have an immediate.
var immediate = [8]uint32{SendImm: 1<<32 - 1, WriteImm: 1<<32 - 1}

// signaled is flags of an entry that has no other.
func signaled(e *Entry) (f uint8) {
	if e.Signaled {
		return prm.CQEUpdate
	}
	return 0
}

// flags are those of the entry's control segment.
func flags(e *Entry) (f uint8) {
	f = signaled(e)
	if e.Fence {
		f |= prm.Fence
	}
	if e.Solicited {
		f |= prm.Solicited
	}
	return f
}
