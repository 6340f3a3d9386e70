package mlx5

import (
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/verbs"
)

// Limits is what a NIC holds.
type Limits struct {
	Completions      int    // of a completion queue, a power of two
	SendBlocks       int    // basic blocks, of 64 bytes, of a send ring, a power of two
	Receives         int    // of a receive ring, a power of two
	SharedReceives   int    // of a shared receive queue, one less than a power of two
	SharedSegments   int    // of a receive there
	Segments         int    // of an entry or a receive
	ReadSegments     int    // of a read
	SendBytes        int    // length of an entry in the ring
	ReceiveBytes     int    // length of a receive in the ring
	Message          uint32 // bytes of a message
	Reads            int    // reads and atomics of a queue pair that run at once
	PeerReads        int    // the same of its peer
	Atomics          bool   // there are atomics, and peers may be granted them
	MemoryRegions    int
	QueuePairs       int
	SharedQueues     int // shared receive queues
	CompletionQueues int
}

// limits combines what the core driver, the mlx5 driver and the port report with
// what the layouts hold.
func limits(dev *device.Device, port verbs.PortAttr) Limits {
	a, c := dev.Attr(), dev.Caps()
	return Limits{
		Completions:      powerOfTwo(min(uint64(a.MaxCQE)+1, ring.MaxCompletions)),
		SendBlocks:       powerOfTwo(min(uint64(c.MaxSendBlocks), ring.MaxWork)),
		Receives:         powerOfTwo(min(uint64(c.MaxReceives), ring.MaxWork)),
		SharedReceives:   powerOfTwo(min(uint64(a.MaxSRQWR)+1, uint64(c.MaxSharedReceives)+1, ring.MaxWork)) - 1,
		SharedSegments:   int(a.MaxSRQSGE),
		Segments:         int(a.MaxSGE),
		ReadSegments:     int(a.MaxSGERead),
		SendBytes:        min(int(c.MaxSendEntry), prm.MaxUnits*prm.Unit),
		ReceiveBytes:     int(c.MaxReceiveEntry),
		Message:          min(port.MaxMsgSize, prm.MaxLength),
		Reads:            int(min(a.MaxReads, nic.MaxReads)),
		PeerReads:        int(min(a.MaxPeerReads, nic.MaxReads)),
		Atomics:          a.AtomicCap != 0,
		MemoryRegions:    int(a.MaxMR),
		QueuePairs:       int(a.MaxQP),
		SharedQueues:     int(a.MaxSRQ),
		CompletionQueues: int(a.MaxCQ),
	}
}

// powerOfTwo is the largest power of two up to n, 0 for 0.
func powerOfTwo(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 << (bits.Len64(n) - 1)
}
