package qp

import (
	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// sendRing is the memory of a send ring, a power of two of blocks, and the same in
// units and in blocks. Indices are free-running: what goes on past the ring's end is at
// its start. Words are in memory order.
type sendRing struct {
	bytes  []byte
	units  [][2]uint64
	blocks [][8]uint64
	flat   [maxFlame][8]uint64
}

func newSendRing(b []byte) sendRing {
	return sendRing{bytes: b, units: hostmem.Split[[2]uint64](b), blocks: hostmem.Split[[8]uint64](b)}
}

func (r *sendRing) unit(i uint32) *[2]uint64 { return &r.units[i&uint32(len(r.units)-1)] }

func (r *sendRing) block(i uint32) *[8]uint64 { return &r.blocks[i&uint32(len(r.blocks)-1)] }

// blocks is how many blocks an entry of so many units takes.
func blocks(units uint32) uint32 { return (units + prm.BlockUnits - 1) / prm.BlockUnits }

// maxFlame is the most blocks that a register takes.
const maxFlame = 4

// entry is the first of an entry's n blocks in a row, at most maxFlame: of a copy, valid
// until the next call, if some are at the ring's start.
func (r *sendRing) entry(block, n uint32) *[8]uint64 {
	first := block & uint32(len(r.blocks)-1)
	if first+n <= uint32(len(r.blocks)) {
		return &r.blocks[first]
	}
	for i := range n {
		r.flat[i] = r.blocks[(first+i)&uint32(len(r.blocks)-1)]
	}
	return &r.flat[0]
}

// putData writes the data segments, and returns the index after the last.
func (r *sendRing) putData(i uint32, first region.Segment, rest []region.Segment) (next uint32) {
	for d := &first; ; d, rest = &rest[0], rest[1:] {
		if d.Length > 0 {
			u := r.unit(i)
			u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
			i++
		}
		if len(rest) == 0 {
			return i
		}
	}
}

// putAtomic writes an atomic segment, and the data segment after it.
func (r *sendRing) putAtomic(i uint32, e *Entry) (next uint32) {
	u := r.unit(i)
	if e.Op == CompareSwap {
		u[0], u[1] = prm.AtomicWords(e.Swap, e.Compare)
	} else {
		u[0], u[1] = prm.AtomicWords(e.Add, 0)
	}
	return r.putData(i+1, e.Local, e.Locals)
}

// putInline copies b behind its header, and returns the units. What reaches the ring's
// end goes on at its start. There is no segment for no bytes.
func (r *sendRing) putInline(i uint32, b []byte) (units uint32) {
	if len(b) == 0 {
		return 0
	}
	to := r.bytes[i&uint32(len(r.units)-1)*prm.Unit:]
	prm.PutInlineHeader(to, len(b))
	if n := copy(to[prm.InlineHeader:], b); n < len(b) {
		copy(r.bytes, b[n:])
	}
	return uint32(prm.InlineUnits(len(b)))
}
