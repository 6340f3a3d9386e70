package device

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/verbs"
)

// What is asked for, and from a kernel with static doorbell pages got: the
// numbers of rdma-core's providers/mlx5.
const (
	staticRegisters     = 16
	lowLatencyRegisters = 4
)

// A page's registers of up to maxRegister bytes fill it; a half smaller than a
// basic block would take no entry.
const (
	minRegister = 2 * prm.Block
	maxRegister = (prm.PageSize - prm.SendRegister) / prm.PageRegisters
)

// maxBlueFlamePages bounds the pages with write combining that one device takes.
// Each serves two queue pairs; those beyond share the page without.
const maxBlueFlamePages = 16

// pages are the doorbell pages of a context. A kernel that lets the context
// allocate them gives one without write combining, for completion queues and
// plain doorbells, and one with it for every two queue pairs. An older one has
// them ready, puts completion queues on the first, and assigns the registers.
type pages struct {
	ctx      *verbs.Context
	size     int // of a register with write combining; 0 is none
	perPage  int // doorbell pages in one mapped page of the host
	static   bool
	reserved int // static registers below this number are shared

	arm   *verbs.Page // what completion queues are armed through
	armed *uint64
	armID uint32

	mu      sync.Mutex // guards what follows
	mapped  []*verbs.Page
	objects []uint32            // dynamic pages' handles
	free    []*Bell             // dynamic registers with write combining, unused
	flame   int                 // pages with write combining allocated
	plain   int                 // plain registers given out
	byIndex map[int]*Bell       // static registers
	byPage  map[int]*verbs.Page // static pages
}

func (p *pages) open(ctx *verbs.Context, caps *prm.AllocContextResponse) error {
	p.ctx = ctx
	p.size = registerSize(caps.BlueFlameSize)
	p.perPage = max(1, int(caps.UARsPerPage))
	p.static = caps.TotalRegisters != 0
	p.reserved = int(caps.TotalRegisters) - lowLatencyRegisters
	p.byIndex, p.byPage = map[int]*Bell{}, map[int]*verbs.Page{}
	var err error
	if p.static {
		p.arm, err = p.mapStatic(0)
	} else {
		p.arm, p.armID, err = p.allocate(prm.UARTypeNonCached)
	}
	if err != nil {
		return err
	}
	p.armed = hostmem.Word64(p.arm.Mem[prm.ArmRegister:])
	return nil
}

// registerSize is a register's size, as the kernel tells it, if it can be; 0 is
// no write combining.
func registerSize(size uint32) int {
	if size < minRegister || size > maxRegister {
		return 0
	}
	return int(size)
}

// armValue tells the NIC what the completion queue number is armed with, in its
// record and its register.
func (p *pages) armValue(r *Record, value, number uint32) {
	mmio.Ring(r.Words[prm.RecordArm], prm.BE32(value), p.armed, prm.ArmDoorbell(value, number))
	if p.arm.Wake != nil {
		p.arm.Wake(prm.ArmRegister)
	}
}

// choose is a register for a new queue pair of a context with dynamic pages, and
// nil for one with static pages.
func (p *pages) choose() *Bell {
	if p.static {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 && p.size > 0 && p.flame < maxBlueFlamePages {
		p.grow()
	}
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	b := NewBell(p.arm, 0, p.plain%prm.PageRegisters, 0)
	b.page = p.armID
	p.plain++
	return b
}

// grow adds a page with write combining. If there is none to be had, now or
// ever, queue pairs do without.
func (p *pages) grow() {
	page, id, err := p.allocate(prm.UARTypeBlueFlame)
	if err != nil {
		p.size = 0
		return
	}
	p.flame++
	for reg := prm.UserRegisters - 1; reg >= 0; reg-- { // the first is taken first
		b := NewBell(page, 0, reg, p.size)
		b.page, b.copies, b.pooled = id, uint32(p.size/2), true
		p.free = append(p.free, b)
	}
}

// release takes a chosen register back once its queue pair is destroyed. Others
// stay as they are.
func (p *pages) release(b *Bell) {
	if b != nil && b.pooled {
		p.mu.Lock()
		p.free = append(p.free, b)
		p.mu.Unlock()
	}
}

// assigned is the static register that the kernel assigned to a queue pair. All
// its queue pairs share it, and its alternation, for the context's life.
func (p *pages) assigned(index int) (*Bell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.byIndex[index]; b != nil {
		return b, nil
	}
	uar, reg := index/prm.PageRegisters, index%prm.PageRegisters
	page, err := p.mapStatic(uar / p.perPage)
	if err != nil {
		return nil, err
	}
	base := uar % p.perPage * prm.PageSize
	if base+prm.PageSize > len(page.Mem) {
		return nil, fmt.Errorf("doorbell register %d is beyond its page of %d bytes", index, len(page.Mem))
	}
	// Register 0 is everybody's, without turns: it takes no entries and has no
	// halves.
	size := p.size
	if index == 0 {
		size = 0
	}
	b := NewBell(page, base, reg, size)
	b.copies = uint32(size / 2)
	if n := index/2 + index%2; index != 0 && n < p.reserved {
		b.mu = new(sync.Mutex)
	}
	p.byIndex[index] = b
	return b, nil
}

// mapStatic maps a page of static registers once.
func (p *pages) mapStatic(index int) (*verbs.Page, error) {
	if page := p.byPage[index]; page != nil {
		return page, nil
	}
	page, err := p.mapPage(prm.MapOffset(prm.MapRegular, uint32(index), hostmem.PageSize()), hostmem.PageSize())
	if err != nil {
		return nil, err
	}
	p.byPage[index] = page
	return page, nil
}

// allocate makes a dynamic page and maps it.
func (p *pages) allocate(kind uint64) (*verbs.Page, uint32, error) {
	var handle, length, id uint32
	var offset uint64
	err := p.ctx.Invoke("allocate doorbell page", prm.ObjectUAR, prm.MethodUARAlloc,
		verbs.AttrNewObject(prm.AttrUARHandle, &handle),
		verbs.AttrConst(prm.AttrUARType, kind),
		verbs.AttrOut(prm.AttrUARMapOffset, prm.Bytes(&offset)),
		verbs.AttrOut(prm.AttrUARMapLength, prm.Bytes(&length)),
		verbs.AttrOut(prm.AttrUARPageNumber, prm.Bytes(&id)))
	if err != nil {
		return nil, 0, err
	}
	p.objects = append(p.objects, handle)
	page, err := p.mapPage(int64(offset), int(length))
	return page, id, err
}

func (p *pages) mapPage(offset int64, length int) (*verbs.Page, error) {
	page, err := p.ctx.Map(offset, length)
	if err != nil {
		return nil, err
	}
	p.mapped = append(p.mapped, page)
	if len(page.Mem) < prm.PageSize {
		return nil, fmt.Errorf("map doorbell page: %d bytes, want %d", len(page.Mem), prm.PageSize)
	}
	return page, nil
}

// unmap takes all pages away. No queue may be rung or armed any more.
func (p *pages) unmap() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, page := range p.mapped {
		errs = append(errs, page.Unmap())
	}
	for _, handle := range p.objects {
		err := p.ctx.Invoke("free doorbell page", prm.ObjectUAR, prm.MethodUARDestroy,
			verbs.AttrObject(prm.AttrUARDestroyHandle, handle))
		// A page of a queue that the kernel refused to destroy goes with the file.
		if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, verbs.ErrDeviceRemoved) {
			errs = append(errs, err)
		}
	}
	p.mapped, p.objects = nil, nil
	return errors.Join(errs...)
}
