package softnic

import (
	"slices"
	"syscall"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// allocStatic allocates the doorbell pages of a context in static mode.
func (c *call) allocStatic(total, lowLatency uint32) error {
	n, f := c.nic, c.file
	switch {
	case total == 0:
		return refuse(einval, "no doorbell registers asked for")
	case total > maxRegisters:
		return refuse(enomem, "%d doorbell registers, limit %d", total, maxRegisters)
	case lowLatency > total-1:
		return refuse(einval, "%d low-latency registers of %d", lowLatency, total)
	}
	pages := (total + prm.UserRegisters - 1) / prm.UserRegisters
	for range pages {
		u := n.takePage()
		if u == nil {
			f.dropStatic()
			return refuse(enomem, "%d doorbell pages", n.count.UARs)
		}
		u.static, u.origin = true, c.origin
		u.offset = prm.MapOffset(prm.MapRegular, uint32(len(f.staticPages)), pageSize())
		f.staticPages = append(f.staticPages, u)
		if err := f.share(u); err != nil {
			f.dropStatic()
			return err
		}
	}
	f.registers = make([]int, pages*prm.UserRegisters)
	f.lowLatency = int(lowLatency)
	return nil
}

// dropStatic gives the pages of a context in static mode back.
func (f *file) dropStatic() {
	for _, u := range f.staticPages {
		delete(f.nic.pages, u.index)
		u.put()
	}
	f.staticPages = nil
}

// takePage makes a page with a free number, or returns nil.
func (n *NIC) takePage() *uar {
	if n.count.UARs >= n.lim.UARs {
		return nil
	}
	index := uint32(firstPage)
	for n.pages[index] != nil {
		index++
	}
	u := n.newUAR(index)
	if u != nil {
		n.pages[index] = u
	}
	return u
}

// firstPage is the number of the first doorbell page that users get.
const firstPage = 8

// takeRegister gives a queue pair of a static context its register, as the
// kernel does: one of its own while there are low-latency ones, then the one of
// the others that has the fewest, not the first unless it is the only one.
func (f *file) takeRegister() (register uint32, u *uar) {
	first := len(f.registers) - f.lowLatency
	best := 0
	if i := slices.Index(f.registers[first:], 0); i >= 0 {
		best = first + i
	} else {
		for i := 1; i < first; i++ {
			if best == 0 || f.registers[i] < f.registers[best] {
				best = i
			}
		}
	}
	f.registers[best]++
	page := best / prm.UserRegisters
	return uint32(page*prm.PageRegisters + best%prm.UserRegisters), f.staticPages[page]
}

func (f *file) returnRegister(q *qp) {
	if q.uar.static && len(f.registers) > 0 {
		f.registers[q.register/prm.PageRegisters*prm.UserRegisters+q.register%prm.PageRegisters]--
	}
}

// dynamic reports whether the context allocates its own pages.
func (f *file) dynamic() bool { return len(f.registers) == 0 }

// page finds the page with a number that the context allocated.
func (f *file) page(index uint32) *uar {
	for h := range f.objects.all(prm.ObjectUAR) {
		if u := f.objects.slots[h].v.(*uar); u.index == index {
			return u
		}
	}
	return nil
}

func (c *call) allocUAR() error {
	if err := c.needContext(); err != nil {
		return err
	}
	n, f := c.nic, c.file
	kind := c.req.Find(prm.AttrUARType).Data()
	switch {
	case kind != prm.UARTypeBlueFlame && kind != prm.UARTypeNonCached:
		return refuse(einval, "doorbell page type %d", kind)
	case kind == prm.UARTypeBlueFlame && n.cfg.NoBlueFlame:
		return refuse(enotsup, "no write combining")
	}
	u := n.takePage()
	if u == nil {
		return refuse(enomem, "%d doorbell pages", n.count.UARs)
	}
	u.origin = c.origin
	u.nonCached = kind == prm.UARTypeNonCached
	u.offset = f.freeOffset()
	if err := f.share(u); err != nil {
		delete(n.pages, u.index)
		u.put()
		return err
	}
	f.mapped[u.offset] = u
	h := c.add(prm.ObjectUAR, u)
	c.created(prm.AttrUARHandle, uint64(h))
	err := output(c, prm.AttrUARMapOffset, uint64(u.offset))
	if err == nil {
		err = output(c, prm.AttrUARMapLength, uint32(pageSize()))
	}
	if err == nil {
		err = output(c, prm.AttrUARPageNumber, u.index)
	}
	if err != nil {
		f.drop(h)
	}
	return err
}

// freeOffset is the first mapping offset without a page.
func (f *file) freeOffset() int64 {
	for i := uint32(0); ; i++ {
		at := prm.MapOffset(prm.MapObject+i>>8, i&0xff, pageSize())
		if f.mapped[at] == nil {
			return at
		}
	}
}

// destroyUAR does not ask who uses the page, as the kernel does not (Linux
// mlx5_ib main.c, mmap_obj_cleanup): its queues live on, and while it is mapped
// they can be rung.
func (c *call) destroyUAR() error {
	return c.destroy(prm.ObjectUAR, c.req.Find(prm.AttrUARDestroyHandle).Data(), uapi.Attr{})
}

// pageAt is the page that a mapping offset means.
func (f *file) pageAt(offset int64) (*uar, syscall.Errno) {
	if u := f.mapped[offset]; u != nil {
		return u, 0
	}
	command, index, ok := prm.ParseMapOffset(offset, pageSize())
	switch {
	case !ok || f.dynamic() || index >= uint32(len(f.staticPages)):
		return nil, einval
	case command == prm.MapWriteCombine && f.nic.cfg.NoBlueFlame:
		return nil, syscall.EPERM
	case command == prm.MapRegular, command == prm.MapWriteCombine, command == prm.MapNonCached:
		return f.staticPages[index], 0
	}
	return nil, einval
}
