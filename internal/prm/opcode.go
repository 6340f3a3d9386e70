package prm

import "fmt"

// Opcode is what a send queue entry asks for: bits 7:0 of the first word of
// its control segment, and the top byte of the last but one word of a
// requester's completion.
type Opcode uint8

// The operations of a reliable-connected queue pair (mlx5dv.h, MLX5_OPCODE_*).
const (
	OpNop         Opcode = 0x00 // control
	OpSendInv     Opcode = 0x01 // control, data
	OpWrite       Opcode = 0x08 // control, remote, data
	OpWriteImm    Opcode = 0x09 // control, remote, data
	OpSend        Opcode = 0x0a // control, data
	OpSendImm     Opcode = 0x0b // control, data
	OpRead        Opcode = 0x10 // control, remote, data
	OpCompareSwap Opcode = 0x11 // control, remote, atomic, one data segment of 8 bytes
	OpFetchAdd    Opcode = 0x12 // control, remote, atomic, one data segment of 8 bytes
)

// String is the operation's name in the InfiniBand specification's manner.
func (o Opcode) String() string {
	switch o {
	case OpNop:
		return "NOP"
	case OpSendInv:
		return "SEND_INVALIDATE"
	case OpWrite:
		return "RDMA_WRITE"
	case OpWriteImm:
		return "RDMA_WRITE_IMM"
	case OpSend:
		return "SEND"
	case OpSendImm:
		return "SEND_IMM"
	case OpRead:
		return "RDMA_READ"
	case OpCompareSwap:
		return "COMPARE_SWAP"
	case OpFetchAdd:
		return "FETCH_ADD"
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// HasImm reports whether the control segment's last word is meaningful: the
// immediate, or the rkey to invalidate of OpSendInv. Drivers leave stale bytes
// there for other operations.
func (o Opcode) HasImm() bool {
	return o == OpSendImm || o == OpWriteImm || o == OpSendInv
}

// HasRemote reports whether a remote address segment follows the control segment.
func (o Opcode) HasRemote() bool {
	switch o {
	case OpWrite, OpWriteImm, OpRead:
		return true
	}
	return o.IsAtomic()
}

// IsAtomic reports whether an atomic segment follows the remote address segment.
func (o Opcode) IsAtomic() bool { return o == OpCompareSwap || o == OpFetchAdd }

// known reports whether the package has the layout of o.
func (o Opcode) known() bool {
	switch o {
	case OpNop, OpSend, OpSendImm, OpSendInv:
		return true
	}
	return o.HasRemote()
}
