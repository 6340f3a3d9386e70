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
	halves [2][]byte
	words  [2]*uint64
	offset [2]int // of the halves in the page
	wake   func(offset int)
	half   int    // which half is next, if there are two
	copies int    // longest entry that may be copied into a half; 0 is none
	page   uint32 // number of a dynamic page
	pooled bool   // goes back when its queue pair is destroyed
}

// NewBell is register number reg of a doorbell page. size is the register's
// size, 0 if there is no write combining: then it has no halves, and all of the
// page's registers are the first, as for libmlx5 (mlx5_set_context and
// mlx5_insert_dyn_uuars, which multiply the number by the size).
func NewBell(page *verbs.Page, base, reg, size int) *Bell {
	b := &Bell{wake: page.Wake}
	for i := range b.halves {
		b.offset[i] = base + prm.SendRegister + reg*size + i*size/2
		b.halves[i] = page.Mem[b.offset[i]:]
		b.words[i] = hostmem.Word64(b.halves[i])
	}
	return b
}

// Copies is the longest entry, in bytes, that Copy takes; 0 if none.
func (b *Bell) Copies() int { return b.copies }

// Ring stores be, the send queue's counter, in its doorbell record, and rings
// with doorbell, the start of the last entry.
func (b *Bell) Ring(record *uint32, be uint32, doorbell uint64) {
	if b.mu != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	mmio.Ring(record, be, b.words[b.half], doorbell)
	b.rung()
}

// Copy is Ring with the whole entry, the size bytes at offset at of ring, which
// go on at the ring's start where they reach its end. It copies whole blocks.
func (b *Bell) Copy(record *uint32, be uint32, ring []byte, at, size uint32) {
	if b.mu != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	mmio.BeginBlueFlame(record, be)
	to := b.halves[b.half]
	for done := uint32(0); done < size; done += prm.Block {
		mmio.CopyBlock(to[done:], ring[(at+done)&uint32(len(ring)-1):])
	}
	mmio.Flush()
	b.rung()
}

// rung tells a software NIC, and goes on to the other half.
func (b *Bell) rung() {
	offset := b.offset[b.half]
	if b.offset[0] != b.offset[1] {
		b.half ^= 1
	}
	if b.wake != nil {
		b.wake(offset)
	}
}
