package softnic

import (
	"slices"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
)

// polledPage is a doorbell page that is looked at for stores. alias is the
// memory of another offset of the same page, or nil.
type polledPage struct {
	uar    *uar
	offset int64
	alias  PageMemory
}

// processPages takes a page out of the poller's sight before its memory goes.
type processPages struct {
	file *ProcessFile
	from Pages
}

type processPage struct {
	PageMemory
	file *ProcessFile
}

// Page makes a page's memory.
func (p *processPages) Page(offset int64) (PageMemory, error) {
	mem, err := p.from.Page(offset)
	if err != nil {
		return nil, err
	}
	return &processPage{mem, p.file}, nil
}

// Free ends the polling of the page, and of its aliases.
func (m *processPage) Free() error {
	p := m.file
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.pages[:0]
	for _, v := range p.pages {
		switch {
		case v.uar.mem != PageMemory(m):
			kept = append(kept, v)
		case v.alias != nil:
			_ = v.alias.Free()
		}
	}
	clear(p.pages[len(kept):])
	p.pages = kept
	return m.PageMemory.Free()
}

func (p *ProcessFile) add(u *uar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages = append(p.pages, polledPage{uar: u, offset: u.offset})
}

// addAlias has another offset of a page polled too, unless it is.
func (p *ProcessFile) addAlias(u *uar, offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.pages, func(v polledPage) bool { return v.uar == u && v.offset == offset }) {
		return nil
	}
	mem, err := p.f.pages.(*processPages).from.Page(offset)
	if err != nil {
		return errnoOf(err)
	}
	p.pages = append(p.pages, polledPage{u, offset, mem})
	return nil
}

// Poll looks for doorbells and has the NIC answer them, on this goroutine if the
// NIC is not at work. It reports whether there were any. Stores are seen if they
// came before Poll; an idle page costs a load for each of its registers.
func (p *ProcessFile) Poll() (found bool) {
	// One at a time: who comes second must find that the first has told the NIC.
	p.mu.Lock()
	for _, v := range p.pages {
		if v.alias != nil {
			v.take()
		}
		found = v.uar.look() || found
	}
	p.mu.Unlock()
	if found {
		p.f.nic.kick()
	}
	return found
}

// Pages is how many doorbell pages there are to poll.
func (p *ProcessFile) Pages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pages)
}

// look notes the registers that were stored to since the NIC emptied them.
// Stores that overwrote each other cannot be told from one, so each counts as
// more than one: every object of the page is looked at.
func (u *uar) look() (found bool) {
	mem := u.mem.Bytes()
	for i := range strayIndex {
		if atomic.LoadUint64(hostmem.Word64(mem[registerOffset(i):])) == 0 {
			continue
		}
		found = true
		u.wakes[i].Add(2)
		if u.rung.Or(1<<i) == 0 {
			u.nic.pushRung(u)
		}
	}
	return found
}

// registerOffset is where a register is in its page.
func registerOffset(i int) int {
	if i == armIndex {
		return prm.ArmRegister
	}
	return prm.SendRegister + i*halfSize
}

// take moves doorbells from an alias to the page. One that it overwrites is
// found by its record.
func (v polledPage) take() {
	from, to := v.alias.Bytes(), v.uar.mem.Bytes()
	for i := range strayIndex {
		at := registerOffset(i)
		word := hostmem.Word64(from[at:])
		if atomic.LoadUint64(word) == 0 {
			continue
		}
		atomic.StoreUint64(hostmem.Word64(to[at:]), atomic.SwapUint64(word, 0))
	}
}
