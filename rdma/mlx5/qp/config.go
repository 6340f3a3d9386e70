package qp

import (
	"fmt"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/srq"
	"github.com/farwire/farwire/rdma/verbs"
)

// minReceives is the least receives of a receive ring.
const minReceives = 4

// Config is how large a queue pair is.
type Config struct {
	Sends    int // entries of the send ring, at least 1; rounded up to a power of two
	Receives int // receives of the receive ring, rounded up to a power of two from 4 on; 0 is no ring

	SendSegments    int // segments of an entry; 0 is 1
	ReceiveSegments int // segments of a receive; 0 is 1
	Inline          int // inline bytes of an entry; what a ring holds anyway is 28

	// SRQ is the shared receive queue whose receives the peer's messages take, instead of
	// those of a ring of the queue pair's own: Receives and ReceiveSegments must be 0 then.
	// It must be of the same NIC.
	SRQ *srq.Queue

	// ReceiveQueue is where receives complete; nil is where entries do. It must be
	// of the same NIC.
	ReceiveQueue *cq.Queue
}

// Limits is what a queue pair holds: at least what was asked for.
type Limits struct {
	Sends, Receives int
	SendSegments    int
	ReadSegments    int // segments of a Read
	ReceiveSegments int
	Inline          int
	Message         uint32 // bytes of an entry, or of a receive
	Atomics         bool   // CompareSwap and FetchAdd may be posted
}

// geometry is how the rings lie in memory: the receive ring, and the send ring
// behind it.
type geometry struct {
	blocks   uint32 // basic blocks of the send ring
	receives uint32
	shift    uint32 // log2 of a receive's bytes, 0 without a receive ring
}

func (g geometry) receiveBytes() uint32 { return g.receives << g.shift }
func (g geometry) bytes() uint32        { return g.receiveBytes() + g.blocks*prm.Block }

// plan checks c against the NIC and lays the rings out.
func (c Config) plan(nic mlx5.Limits) (g geometry, l Limits, err error) {
	if c.Sends < 1 || c.Receives < 0 || c.SendSegments < 0 || c.ReceiveSegments < 0 || c.Inline < 0 {
		return g, l, fmt.Errorf("sends, receives, segments or inline bytes out of range: %+v", c)
	}
	if c.SRQ != nil && (c.Receives != 0 || c.ReceiveSegments != 0) {
		return g, l, fmt.Errorf("%d receives of %d segments beside a shared receive queue", c.Receives, c.ReceiveSegments)
	}
	l.Message, l.Atomics = nic.Message, nic.Atomics
	if err := c.planSends(nic, &g, &l); err != nil {
		return g, l, err
	}
	if c.Receives > 0 {
		err = c.planReceives(nic, &g, &l)
	}
	return g, l, err
}

func (c Config) planSends(nic mlx5.Limits, g *geometry, l *Limits) error {
	if err := bound("sends", c.Sends, ring.MaxWork); err != nil {
		return err
	}
	segments := max(1, c.SendSegments)
	if err := bound("segments of an entry", segments, nic.Segments); err != nil {
		return err
	}
	if err := bound("inline bytes of an entry", c.Inline, nic.SendBytes); err != nil {
		return err
	}
	// Atomics have a segment more, but one data segment only: they fit a block.
	size := prm.SendSize(segments, c.Inline)
	if err := bound("bytes of an entry in the ring", size, nic.SendBytes); err != nil {
		return err
	}
	l.Sends = int(ring.RoundUp(uint32(c.Sends)))
	g.blocks = ring.RoundUp(uint32(l.Sends * size / prm.Block))
	if err := bound("basic blocks of the send ring", int(g.blocks), nic.SendBlocks); err != nil {
		return err
	}
	l.SendSegments = min((size-prm.Head)/prm.Unit, nic.Segments)
	l.ReadSegments = min(l.SendSegments, max(1, nic.ReadSegments))
	l.Inline = size - prm.Head - prm.InlineHeader
	return nil
}

func (c Config) planReceives(nic mlx5.Limits, g *geometry, l *Limits) error {
	if err := bound("receives", c.Receives, ring.MaxWork); err != nil {
		return err
	}
	segments := max(1, c.ReceiveSegments)
	if err := bound("segments of a receive", segments, nic.Segments); err != nil {
		return err
	}
	g.shift = uint32(prm.ReceiveShift(segments))
	if err := bound("bytes of a receive in the ring", 1<<g.shift, nic.ReceiveBytes); err != nil {
		return err
	}
	g.receives = ring.RoundUp(uint32(max(minReceives, c.Receives)))
	if err := bound("receives", int(g.receives), nic.Receives); err != nil {
		return err
	}
	l.Receives = int(g.receives)
	l.ReceiveSegments = min(1<<g.shift/prm.Unit, nic.Segments)
	return nil
}

func bound(what string, n, most int) error {
	if n > most {
		return fmt.Errorf("%d %s is more than %d", n, what, most)
	}
	return nil
}

// caps is what the kernel is told.
func (l *Limits) caps() verbs.QPCap {
	return verbs.QPCap{
		SendWR: uint32(l.Sends), RecvWR: uint32(l.Receives),
		SendSGE: uint32(l.SendSegments), RecvSGE: uint32(l.ReceiveSegments),
		Inline: uint32(l.Inline),
	}
}
