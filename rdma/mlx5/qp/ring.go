package qp

import (
	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// sendRing is the memory of a send ring, a power of two of blocks, and the same in
// units and in blocks. Indices of units are free-running: what goes on past the
// ring's end is at its start.
type sendRing struct {
	bytes  []byte
	units  [][2]uint64 // in memory order
	blocks [][prm.Block]byte
	flat   [maxFlame][prm.Block]byte
}

func newSendRing(b []byte) sendRing {
	return sendRing{bytes: b, units: hostmem.Split[[2]uint64](b), blocks: hostmem.Split[[prm.Block]byte](b)}
}

func (r *sendRing) unit(i uint32) *[2]uint64 { return &r.units[i&uint32(len(r.units)-1)] }

// maxFlame is the most blocks that a register takes.
const maxFlame = 4

// entry is the blocks of an entry of at most maxFlame, in one piece: a copy, valid until
// the next call, if some are at the ring's start.
func (r *sendRing) entry(block, n uint32) [][prm.Block]byte {
	first := block & uint32(len(r.blocks)-1)
	if first+n <= uint32(len(r.blocks)) {
		return r.blocks[first:][:n]
	}
	for i := range n {
		r.flat[i] = r.blocks[(first+i)&uint32(len(r.blocks)-1)]
	}
	return r.flat[:n]
}

// putData writes the data segments, and returns the index after the last.
func (r *sendRing) putData(i uint32, segments []region.Segment) (next uint32) {
	for j := range segments {
		if d := &segments[j]; d.Length > 0 {
			u := r.unit(i)
			u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
			i++
		}
	}
	return i
}

// putAtomic writes an atomic segment, and the data segment after it.
func (r *sendRing) putAtomic(i uint32, e *Entry) {
	u := r.unit(i)
	if e.Op == CompareSwap {
		u[0], u[1] = prm.AtomicWords(e.Swap, e.Compare)
	} else {
		u[0], u[1] = prm.AtomicWords(e.Add, 0)
	}
	if r.putData(i+1, []region.Segment{e.Local}) == i+1 {
		r.putData(i+1, e.Locals)
	}
}

// putInline copies b behind its header, and returns the index after its last unit. What
// reaches the ring's end goes on at its start. There is no segment for no bytes.
func (r *sendRing) putInline(i uint32, b []byte) (next uint32) {
	if len(b) == 0 {
		return i
	}
	at := i & uint32(len(r.units)-1) * prm.Unit
	prm.PutInlineHeader(r.bytes[at:], len(b))
	if n := copy(r.bytes[at+prm.InlineHeader:], b); n < len(b) {
		copy(r.bytes, b[n:])
	}
	return i + uint32(prm.InlineUnits(len(b)))
}
