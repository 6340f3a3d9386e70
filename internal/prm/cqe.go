package prm

import (
	"encoding/binary"
	"fmt"
)

// CQESize is the size of a completion queue entry, in bytes. An entry of a queue
// of 128-byte entries has the same layout in its second half.
const CQESize = 64

// CQEFresh is what the last byte of every entry must hold before the queue is
// created: an invalid opcode, since a zeroed entry would read as a valid
// completion of the ring's first pass.
const CQEFresh = byte(CQEInvalid) << 4

// CQEOpcode is the kind of a completion, bits 7:4 of its last byte.
type CQEOpcode uint8

// The kinds of completions (mlx5dv.h, MLX5_CQE_*).
const (
	CQERequester      CQEOpcode = 0  // a send queue entry succeeded
	CQEWriteImm       CQEOpcode = 1  // an RDMA WRITE with immediate arrived
	CQEReceive        CQEOpcode = 2  // a SEND arrived
	CQEReceiveImm     CQEOpcode = 3  // a SEND with immediate arrived
	CQEReceiveInv     CQEOpcode = 4  // a SEND with invalidate arrived
	CQEResize         CQEOpcode = 5  // the queue goes on in another buffer
	CQERequesterError CQEOpcode = 13 // a send queue entry failed
	CQEResponderError CQEOpcode = 14 // a receive failed
	CQEInvalid        CQEOpcode = 15 // the entry was never written
)

// String is the kind's name.
func (o CQEOpcode) String() string {
	switch o {
	case CQERequester:
		return "requester"
	case CQEWriteImm:
		return "responder RDMA_WRITE_IMM"
	case CQEReceive:
		return "responder SEND"
	case CQEReceiveImm:
		return "responder SEND_IMM"
	case CQEReceiveInv:
		return "responder SEND_INVALIDATE"
	case CQEResize:
		return "resize"
	case CQERequesterError:
		return "requester error"
	case CQEResponderError:
		return "responder error"
	case CQEInvalid:
		return "invalid"
	}
	return fmt.Sprintf("completion opcode %d", uint8(o))
}

// CQEFormat is bits 3:2 of an entry's last byte.
type CQEFormat uint8

// The formats (mlx5.h, MLX5_INLINE_SCATTER_*). Inline data is not in the memory of
// the work queue entry: the driver has to copy it there.
const (
	CQEPlain      CQEFormat = 0
	CQEInline32   CQEFormat = 1 // at most Inline32 bytes, in place of the entry's first fields
	CQEInline64   CQEFormat = 2 // at most Inline64 bytes, in the first half of an entry of 128 bytes
	CQECompressed CQEFormat = 3

	Inline32 = 32
	Inline64 = 64
)

// IsError reports whether the entry has a syndrome instead of the fields of success.
func (o CQEOpcode) IsError() bool { return o == CQERequesterError || o == CQEResponderError }

// IsSend reports whether the completion is of a send queue's entry.
func (o CQEOpcode) IsSend() bool { return o == CQERequester || o == CQERequesterError }

// Offsets of a completion queue entry (mlx5dv.h, struct mlx5_cqe64 and struct
// mlx5_err_cqe). Numbers have 24 bits; what shares their word is said beside.
const (
	cqeSourceLID = 22
	cqeRemote    = 24 // priority, or kind of header 25:24; GRH 29:28; remote queue pair
	cqeUser      = 32 // user index, or shared receive queue number
	cqeImm       = 36 // immediate, or invalidated rkey
	cqeBytes     = 44
	cqeTimestamp = 48
	cqeVendor    = 54 // of an error
	cqeSyndrome  = 55 // of an error
	cqeNumber    = 56 // send opcode 31:24, queue pair
	cqeCounter   = 60
	cqeOwn       = 63 // opcode 7:4, format 3:2, solicited 1, owner 0

	// CQELastWord is the offset of the word that makes an entry valid: counter,
	// signature and owner byte. It is read, and written, as one 32-bit word.
	CQELastWord = 60

	// The indices in CQEWords of the user index and of the queue pair's number.
	CQEUserWord   = cqeUser / 4
	CQENumberWord = cqeNumber / 4
)

// CQE is a view of a completion queue entry's CQESize bytes, in the ring or a
// copy. Accessors panic on a shorter slice. In the ring the entry may be read
// only once its owner bit was seen to be the pass's, and a barrier after that.
type CQE []byte

// Opcode is the kind of the completion.
func (c CQE) Opcode() CQEOpcode { return CQEOpcode(c[cqeOwn] >> 4) }

// Owner is the owner bit, 0 or 1.
func (c CQE) Owner() uint8 { return c[cqeOwn] & 1 }

// Solicited reports whether the peer asked for a solicited event.
func (c CQE) Solicited() bool { return c[cqeOwn]&2 != 0 }

// Format is where the data of the message is: CQEPlain unless the queue pair asked
// for data in completions, or the queue for compressed ones.
func (c CQE) Format() CQEFormat { return CQEFormat(c[cqeOwn] >> 2 & 3) }

// QPN is the number of the queue pair.
func (c CQE) QPN() uint32 { return binary.BigEndian.Uint32(c[cqeNumber:]) & MaxNumber }

// SendOpcode is the operation of the completed send queue entry.
func (c CQE) SendOpcode() Opcode { return Opcode(c[cqeNumber]) }

// WQECounter is the first block of the completed entry in a send queue, the
// entry's counter in a receive queue, its index in a shared receive queue.
func (c CQE) WQECounter() uint16 { return binary.BigEndian.Uint16(c[cqeCounter:]) }

// ByteCount is the length of an arrived message, or of what an RDMA READ fetched;
// it has no meaning for other completions.
func (c CQE) ByteCount() uint32 { return binary.BigEndian.Uint32(c[cqeBytes:]) }

// Imm is the immediate as a number, or the rkey the peer invalidated.
func (c CQE) Imm() uint32 { return binary.BigEndian.Uint32(c[cqeImm:]) }

// UserIndex is the index the queue pair was created with, where the context has
// CQE version 1.
func (c CQE) UserIndex() uint32 { return binary.BigEndian.Uint32(c[cqeUser:]) & MaxNumber }

// SRQN is the number of the shared receive queue or 0, where the context has CQE
// version 0.
func (c CQE) SRQN() uint32 { return c.UserIndex() }

// RemoteQPN is the number of the peer's queue pair, in a responder's completion.
func (c CQE) RemoteQPN() uint32 { return binary.BigEndian.Uint32(c[cqeRemote:]) & MaxNumber }

// SourceLID is the LID that the message came from, on InfiniBand.
func (c CQE) SourceLID() uint16 { return binary.BigEndian.Uint16(c[cqeSourceLID:]) }

// Priority is the service level of the message on InfiniBand, and on Ethernet the
// kind of its network header: HeaderIPv6 or HeaderIPv4.
func (c CQE) Priority() uint8 { return c[cqeRemote] & 0xf }

// Kinds of network headers (Linux include/linux/mlx5/device.h,
// MLX5_CQE_ROCE_L3_HEADER_TYPE_*).
const (
	HeaderIPv6 = 1
	HeaderIPv4 = 2
)

// HasGRH reports whether the message came with a global route header.
func (c CQE) HasGRH() bool { return c[cqeRemote]&0x30 != 0 }

// Timestamp is when the completion was written, in ticks of the NIC's clock. It
// shares bytes with an error's syndromes.
func (c CQE) Timestamp() uint64 { return binary.BigEndian.Uint64(c[cqeTimestamp:]) }

// Syndrome is the cause of an error.
func (c CQE) Syndrome() Syndrome { return Syndrome(c[cqeSyndrome]) }

// VendorSyndrome is the cause of an error in the vendor's finer terms.
func (c CQE) VendorSyndrome() uint8 { return c[cqeVendor] }
