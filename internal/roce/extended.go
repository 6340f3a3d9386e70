package roce

import "encoding/binary"

// RETH is the RDMA extended transport header (section 9.3.3) of WRITE and READ
// requests, 16 bytes:
//
//	+---------------------------------------------------------------+
//	|                     virtual address (63-32)                   |
//	+---------------------------------------------------------------+
//	|                     virtual address (31-0)                    |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                DMA length of the whole message                |
//	+---------------------------------------------------------------+
type RETH []byte

// Offsets in the RETH.
const (
	RETHSize = 16

	rethVA     = 0
	rethRKey   = 8
	rethLength = 12
)

// VA returns the address at the responder.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h[rethVA:]) }

// RKey returns the key of the responder's memory region.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[rethRKey:]) }

// Length returns the bytes of the whole message; more than MaxMessage is invalid.
func (h RETH) Length() uint32 { return binary.BigEndian.Uint32(h[rethLength:]) }

func (h RETH) put(va uint64, rkey, length uint32) {
	binary.BigEndian.PutUint64(h[rethVA:], va)
	binary.BigEndian.PutUint32(h[rethRKey:], rkey)
	binary.BigEndian.PutUint32(h[rethLength:], length)
}

// AtomicETH is the header of atomic requests (section 9.3.4), 28 bytes:
//
//	+---------------------------------------------------------------+
//	|                     virtual address (63-0)                    |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|               swap value, or the value to add                 |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|               compare value (0 for fetch-and-add)             |
//	|                                                               |
//	+---------------------------------------------------------------+
type AtomicETH []byte

// Offsets in the AtomicETH.
const (
	AtomicETHSize = 28

	atomicVA      = 0
	atomicRKey    = 8
	atomicSwapAdd = 12
	atomicCompare = 20
)

// VA returns the address at the responder, which must be a multiple of 8.
func (h AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[atomicVA:]) }

// RKey returns the key of the responder's memory region.
func (h AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[atomicRKey:]) }

// SwapAdd returns the value to store if the comparison holds, or to add.
func (h AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[atomicSwapAdd:]) }

// Compare returns the value to compare with.
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[atomicCompare:]) }

func (h AtomicETH) put(f *Header) {
	binary.BigEndian.PutUint64(h[atomicVA:], f.VA)
	binary.BigEndian.PutUint32(h[atomicRKey:], f.RKey)
	binary.BigEndian.PutUint64(h[atomicSwapAdd:], f.SwapAdd)
	binary.BigEndian.PutUint64(h[atomicCompare:], f.Compare)
}

// AETH is the ACK extended transport header (section 9.3.5), 4 bytes:
//
//	+---------------+-----------------------------------------------+
//	|   syndrome    |            message sequence number            |
//	+---------------+-----------------------------------------------+
type AETH []byte

// AETHSize is the size of an AETH.
const AETHSize = 4

// Syndrome returns the verdict.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the 24-bit count of messages the responder has completed.
func (h AETH) MSN() uint32 { return binary.BigEndian.Uint32(h) & mask24 }

func (h AETH) put(s Syndrome, msn uint32) {
	binary.BigEndian.PutUint32(h, uint32(s)<<24|msn&mask24)
}

// AtomicAckETH is the 8-byte value an atomic operation found (section 9.5.3).
type AtomicAckETH []byte

// AtomicAckETHSize is the size of an AtomicAckETH.
const AtomicAckETHSize = 8

// Original returns the value before the operation.
func (h AtomicAckETH) Original() uint64 { return binary.BigEndian.Uint64(h) }

// DETH is the datagram extended transport header (section 9.3.2), 8 bytes:
//
//	+---------------------------------------------------------------+
//	|                             Q_Key                             |
//	+---------------+-----------------------------------------------+
//	|   reserved    |                   source QP                   |
//	+---------------+-----------------------------------------------+
type DETH []byte

// DETHSize is the size of a DETH.
const DETHSize = 8

// QKey returns the key that the destination queue pair must have.
func (h DETH) QKey() uint32 { return binary.BigEndian.Uint32(h) }

// SourceQP returns the 24-bit number of the queue pair that sent the datagram.
func (h DETH) SourceQP() uint32 { return binary.BigEndian.Uint32(h[4:]) & mask24 }

func (h DETH) put(qkey, source uint32) {
	binary.BigEndian.PutUint32(h, qkey)
	binary.BigEndian.PutUint32(h[4:], source&mask24)
}

// ImmDt is the 4 bytes of immediate data (section 9.3.6).
type ImmDt []byte

// ImmDtSize is the size of an ImmDt.
const ImmDtSize = 4

// Imm returns the immediate data as a big endian number.
func (h ImmDt) Imm() uint32 { return binary.BigEndian.Uint32(h) }

// IETH is the 4-byte key a SEND with invalidate takes back (section 9.3.7).
type IETH []byte

// IETHSize is the size of an IETH.
const IETHSize = 4

// RKey returns the key to invalidate.
func (h IETH) RKey() uint32 { return binary.BigEndian.Uint32(h) }
