package device

import (
	"sync"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/verbs"
)

// Bell is the doorbell register of one or several send queues. A register with
// write combining has two halves, which successive doorbells alternate between;
// its users share the alternation, so they take turns.
type Bell struct {
	mu     *sync.Mutex // nil if the register needs no turns
	halves [2]half     // the same one twice if there is no write combining
	next   uint8       // whose lowest bit is the half that is next
	wake   func(offset int)
	copies uint32 // longest entry that may be copied into a half; 0 is none
	page   uint32 // number of a dynamic page
	pooled bool   // goes back when its queue pair is destroyed
}

// half is one half of a register, in blocks. The doorbell is the first word.
type half struct {
	blocks [][8]uint64
	offset int // in the page
}

// NewBell is register number reg of a doorbell page. size is the register's
// size, 0 if there is no write combining: then it has no halves, and all of the
// page's registers are the first, as for libmlx5 (mlx5_set_context and
// mlx5_insert_dyn_uuars, which multiply the number by the size).
func NewBell(page *verbs.Page, base, reg, size int) *Bell {
	b := &Bell{wake: page.Wake}
	for i := range b.halves {
		offset := base + prm.SendRegister + reg*size + i*size/2
		mem := page.Mem[offset:]
		b.halves[i] = half{hostmem.Split[[8]uint64](mem), offset}
	}
	return b
}

// Copies is the longest entry, in bytes, that Copy takes: a multiple of a block, 0 if
// none.
func (b *Bell) Copies() uint32 { return b.copies }

// Ring stores be, the send queue's counter, in its doorbell record, and rings
// with doorbell, the start of the last entry.
func (b *Bell) Ring(record *uint32, be uint32, doorbell uint64) {
	if b.mu != nil {
		b.mu.Lock()
	}
	h := b.turn()
	mmio.Ring(record, be, &h.blocks[0][0], doorbell)
	if b.wake != nil {
		b.wake(h.offset)
	}
	if b.mu != nil {
		b.mu.Unlock()
	}
}

// Copy is Ring with a whole entry, no longer than Copies: the n blocks in a row, at least
// one, of which entry is the first.
func (b *Bell) Copy(record *uint32, be uint32, entry *[8]uint64, n uint32) {
	if b.mu != nil {
		b.mu.Lock()
	}
	h := b.turn()
	_ = h.blocks[n-1]
	mmio.BlueFlame(record, be, &h.blocks[0], entry, n)
	if b.wake != nil {
		b.wake(h.offset)
	}
	if b.mu != nil {
		b.mu.Unlock()
	}
}

// Blocks is the length of the longest entry, in blocks, that needs nothing but to be
// copied to what Turn gives. It is 0 if the register takes none, if it is shared, or if
// there is a software NIC to be told.
func (b *Bell) Blocks() uint32 {
	if b.mu != nil || b.wake != nil {
		return 0
	}
	return b.copies / prm.Block
}

// Turn is the place for the next entry that is no longer than Blocks.
func (b *Bell) Turn() *[8]uint64 { return &b.turn().blocks[0] }

// turn is the half to be rung.
func (b *Bell) turn() *half {
	h := &b.halves[b.next&1]
	b.next++
	return h
}
