package qp

import "github.com/farwire/farwire/internal/prm"

// opcodes are the hardware's numbers of the operations.
var opcodes = [...]prm.Opcode{
	Send: prm.OpSend, SendImm: prm.OpSendImm,
	Write: prm.OpWrite, WriteImm: prm.OpWriteImm,
	Read: prm.OpRead, CompareSwap: prm.OpCompareSwap, FetchAdd: prm.OpFetchAdd,
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
