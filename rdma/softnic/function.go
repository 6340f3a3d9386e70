package softnic

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// Function is the NIC as its own command interface has it, for a front end that
// speaks with a kernel's driver instead of with user space: objects have the numbers
// that doorbells, completions and other objects know them by, and each brings the
// memory that its queues are in. Objects of several functions do not know each
// other.
//
// The methods that make and destroy objects judge what the engine relies on; the
// front end judges the rest. Their errors are a [syscall.Errno] with a reason. All
// methods are safe for concurrent use; the callbacks that a function is given are
// called with the NIC locked: they must neither block nor call the NIC.
type Function struct {
	f     *file
	async *eventFile
	gids  sync.Mutex // of changes of the GID table; before NIC.mu

	// Handles of the file's objects by number, under NIC.mu.
	pds, pages, regions, cqs, qps, srqs map[uint32]uint32
}

// FunctionEvent is an asynchronous event: about the object with a number, or about
// the port.
type FunctionEvent struct {
	Kind   uint32 // as the kernel's uverbs interface has it: IB_EVENT_*
	Number uint32
}

// OpenFunction opens the NIC for a front end, which takes asynchronous events by
// async. It fails with syscall.EIO when the NIC has failed or was closed. The caller
// closes the function.
func (n *NIC) OpenFunction(async func(FunctionEvent)) (*Function, error) {
	f, err := n.open(0, nil)
	if err != nil {
		return nil, err
	}
	n.lock()
	defer n.unlock()
	p := &Function{f: f, pds: map[uint32]uint32{}, pages: map[uint32]uint32{}, regions: map[uint32]uint32{},
		cqs: map[uint32]uint32{}, qps: map[uint32]uint32{}, srqs: map[uint32]uint32{}}
	p.async = p.events(asyncRecord, func(record []byte) {
		async(FunctionEvent{Kind: binary.NativeEndian.Uint32(record[8:]), Number: uint32(binary.NativeEndian.Uint64(record))})
	})
	f.async = p.async
	return p, nil
}

// events makes the event file whose records go to put.
func (p *Function) events(size int, put func(record []byte)) *eventFile {
	e := newEventFile(size, 0)
	e.sink, e.closing, e.origin = &functionSink{put}, func() {}, p.f.origin()
	return e
}

// functionSink hands records on at once: none waits to be read.
type functionSink struct{ put func(record []byte) }

func (s *functionSink) Put(record []byte)              { s.put(record) }
func (s *functionSink) TakeBack(func([]byte) bool) int { return 0 }
func (s *functionSink) Close()                         {}

// Close destroys all objects, and takes the addresses away.
func (p *Function) Close() error {
	err := p.f.Close()
	for slot := range p.f.nic.gids {
		if p.f.nic.cfg.Unaddressed {
			err = errors.Join(err, p.clearGID(slot))
		}
	}
	return err
}

// GUID is the GUID of the NIC and its port.
func (p *Function) GUID() [8]byte { return p.f.nic.guid }

// Limits are the NIC's.
func (p *Function) Limits() Limits { return p.f.nic.lim }

// do runs a command under the NIC's lock, unless the NIC is gone.
func (p *Function) do(command func(n *NIC) error) error {
	n := p.f.nic
	n.lock()
	defer n.unlock()
	n.count.Commands++
	return n.asking(func() error {
		if p.gone() {
			return refuse(eio, "device has failed")
		}
		return command(n)
	})
}

// gone reports whether the objects are no more, although their numbers are known.
// NIC.mu is held.
func (p *Function) gone() bool { return p.f.nic.failed || p.f.closed }

// find is the object with a number, of a function that is not gone.
func find[T any](p *Function, table map[uint32]uint32, number uint32) (T, error) {
	var none T
	handle, ok := table[number]
	if !ok {
		return none, refuse(enoent, "no such object: %#x", number)
	}
	return p.f.objects.slots[handle].v.(T), nil
}

// destroy destroys the object with a number, unless it is in use.
func destroy[T any](p *Function, table map[uint32]uint32, number uint32, users func(T) int) error {
	return p.do(func(*NIC) error {
		v, err := find[T](p, table, number)
		if err != nil {
			return err
		}
		if n := users(v); n > 0 {
			return refuse(ebusy, "object %#x has %d users", number, n)
		}
		p.f.drop(table[number])
		delete(table, number)
		return nil
	})
}

func nobody[T any](T) int { return 0 }

// AllocPD makes a protection domain.
func (p *Function) AllocPD() (number uint32, err error) {
	err = p.do(func(n *NIC) error {
		d, err := n.newPD()
		if err != nil {
			return err
		}
		number = d.number
		p.pds[number] = p.f.objects.add(uapi.ObjectPD, d)
		return nil
	})
	return number, err
}

// DeallocPD destroys a protection domain that nothing uses.
func (p *Function) DeallocPD(number uint32) error {
	return destroy(p, p.pds, number, func(d *pd) int { return d.users })
}

// AllocPage makes a doorbell page; its number is 8 at least.
func (p *Function) AllocPage() (number uint32, err error) {
	err = p.do(func(n *NIC) error {
		u := n.takePage()
		if u == nil {
			return refuse(enomem, "%d doorbell pages", n.count.UARs)
		}
		// Stores come one by one and not as entries, so what lies behind a doorbell's
		// first word says nothing.
		u.nonCached = true
		u.origin = p.f.origin()
		number = u.index
		p.pages[number] = p.f.objects.add(objectUAR, u)
		return nil
	})
	return number, err
}

// DeallocPage destroys a doorbell page. Queues that use it live on.
func (p *Function) DeallocPage(number uint32) error { return destroy(p, p.pages, number, nobody[*uar]) }

// Ring makes a store to a doorbell page, of 4 or 8 bytes, and has the NIC answer it
// before it returns. What is no doorbell, or half of one, is stored and no more.
func (p *Function) Ring(page uint32, offset int, store []byte) {
	n := p.f.nic
	n.lock()
	defer n.unlock()
	if p.gone() {
		return
	}
	u, err := find[*uar](p, p.pages, page)
	if err != nil || offset < 0 || offset+len(store) > prm.PageSize {
		return
	}
	register := offset &^ 7
	if registerIndex(register) == strayIndex {
		return
	}
	word := hostmem.Word64(u.mem.Bytes()[register:])
	switch {
	case len(store) == 8 && offset == register:
		atomic.StoreUint64(word, binary.NativeEndian.Uint64(store))
	case len(store) == 4 && offset == register:
		copy(u.half[:], store) // the other half makes it a doorbell
		return
	case len(store) == 4 && offset == register+4:
		var whole [8]byte
		copy(whole[:], u.half[:])
		copy(whole[4:], store)
		atomic.StoreUint64(word, binary.NativeEndian.Uint64(whole[:]))
	default:
		return
	}
	u.wake(register)
	if n.pending.Load() {
		n.process(inlineWork)
	}
}

// RegionConfig is a memory region wanted. The bytes at [Address, Address+Length) of
// who uses its key are those from Start on of Memory.
type RegionConfig struct {
	PD              uint32
	Memory          Memory
	Start           uint64
	Address, Length uint64
	Access          uint32 // as the kernel's uverbs interface has it: IB_ACCESS_*
	Variant         uint8  // low byte of the key
}

// CreateRegion makes a memory region and returns its key.
func (p *Function) CreateRegion(c RegionConfig) (key uint32, err error) {
	err = p.do(func(n *NIC) error {
		d, err := find[*pd](p, p.pds, c.PD)
		switch {
		case err != nil:
			return err
		case n.count.MRs >= n.lim.MRs:
			return refuse(enomem, "%d memory regions", n.count.MRs)
		case c.Address+c.Length < c.Address || c.Start+c.Length < c.Start:
			return refuse(einval, "region of %d bytes at %#x", c.Length, c.Address)
		}
		m := &mr{pd: d, mem: c.Memory, start: c.Start, va: c.Address, length: c.Length, access: c.Access}
		m.key = n.newIndex()<<8 | uint32(c.Variant)
		n.addRegion(m)
		key = m.key
		p.regions[key>>8] = p.f.objects.add(uapi.ObjectMR, m)
		return nil
	})
	return key, err
}

// DestroyRegion destroys the region with a key's index: the key without its low byte.
func (p *Function) DestroyRegion(index uint32) error {
	return destroy(p, p.regions, index, nobody[*mr])
}
