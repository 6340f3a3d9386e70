package softnic

import (
	"sync"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
)

// Memory is the address space of whoever opened a file: queues, doorbell
// records, registered buffers and the buffers of commands are reached through
// it alone. Every method fails, by an error or by false, where the address is
// not mapped or may not be accessed so. Words are in memory order. It must be
// safe for concurrent use and must not call the NIC.
type Memory interface {
	// Read and Write copy all of p or return an error; which bytes were copied
	// then is unspecified.
	Read(addr uint64, p []byte) error
	Write(addr uint64, p []byte) error

	// Load32 and Store32 are single accesses to an aligned word, ordered as
	// those of sync/atomic. A reader that waits for the word's last byte sees
	// the other three.
	Load32(addr uint64) (uint32, bool)
	Store32(addr uint64, v uint32) bool

	// CompareSwap64 and Add64 are atomic with respect to this memory's other
	// users; they return the value before, a number of this machine. For the
	// memory of another process they are so among NICs.
	CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool)
	Add64(addr, n uint64) (old uint64, ok bool)

	// Pin reports whether all of the range may be read, and written if write.
	Pin(addr, n uint64, write bool) bool
}

type memory = Memory

var _ uapi.Memory = Memory(nil)

// Caller is the process that issues a command to a ProcessFile, for as long as
// the command takes.
type Caller interface {
	// Process is its number, for the trace.
	Process() int

	// Memory is its address space. Objects that the command makes keep it.
	Memory() Memory

	// NewEvents makes an event descriptor in the caller, whose reads give one
	// record of size bytes each. closed is to be called once when the caller
	// has closed it; not from within NewEvents or a method of the sink.
	NewEvents(size int, closed func()) (fd int, sink EventSink, err error)

	// Events is the sink behind an open event descriptor of the caller, or nil.
	Events(fd int) EventSink
}

// EventSink takes the records of an event descriptor of another process. Its
// methods are called with the NIC locked: they must neither block nor call the
// NIC. It must be comparable.
type EventSink interface {
	// Put queues a record for the reader.
	Put(record []byte)
	// TakeBack removes the records that were not read and that drop wants to
	// go, and returns how many there were.
	TakeBack(drop func(record []byte) bool) int
	// Close makes reads fail once the queued records are read.
	Close()
}

// Pages makes the doorbell pages of a ProcessFile: memory of this process that
// the other maps at an offset of the file. A page is zero when it is made; Free
// gives it back. The methods are called with the NIC locked.
type Pages interface {
	Page(offset int64) (PageMemory, error)
}

// PageMemory is the memory of a doorbell page: a whole host page.
type PageMemory interface {
	Bytes() []byte
	Free() error
}

// ProcessFile is the NIC's file as opened by another process. That process has
// no way to say that it rang a doorbell, so somebody must call Poll. All methods
// are safe for concurrent use.
type ProcessFile struct {
	f *file

	mu    sync.Mutex // guards pages; after NIC.mu
	pages []polledPage

	clock PageMemory // about the clock; nil until it is mapped; guarded by mu
}

// OpenFor opens the NIC for another process, of the number given. It fails with syscall.EIO when the
// NIC has failed or was closed. The caller closes the file when no process has it
// open or mapped any more.
func (n *NIC) OpenFor(process int, pages Pages) (*ProcessFile, error) {
	p := &ProcessFile{}
	f, err := n.open(process, nil)
	if err != nil {
		return nil, err
	}
	f.pages = &processPages{p, pages}
	p.f = f
	return p, nil
}

// Ioctl executes one command. Its bytes are a copy: what the caller must see of
// them afterwards, the attributes, is for the one who made it to write back, unless
// the error is EFAULT.
//
// Doorbells that were rung before come first: a device would long have seen them.
func (p *ProcessFile) Ioctl(caller Caller, cmd []byte) error {
	p.Poll()
	return p.f.command(cmd, caller, caller.Memory())
}

// Map judges a mapping by a process, as mmap would. The mapping itself is between the
// process and the file; all of a file's offsets that name one page ring the
// same doorbells.
func (p *ProcessFile) Map(process int, offset int64, length int) error {
	f, n := p.f, p.f.nic
	n.lock()
	defer n.unlock()
	if mapsClockInfo(offset) {
		return p.mapClock(process, offset, length)
	}
	u, err := f.mappable(offset, length)
	f.traceMap(process, offset, length, u.number(), err)
	if err != nil {
		return err
	}
	if offset == u.offset {
		return nil
	}
	return p.addAlias(u, offset)
}

// Close ends the context and all of its objects.
func (p *ProcessFile) Close() error {
	err := p.f.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.pages {
		if v.alias != nil {
			_ = v.alias.Free()
		}
	}
	p.pages = nil
	if p.clock != nil {
		_ = p.clock.Free()
		p.clock = nil
	}
	return err
}

// handOut makes the event descriptor in the caller. Its end is noticed there.
func (c *call) handOut(e *eventFile) error {
	fd, sink, err := c.caller.NewEvents(e.size, func() { _ = e.Close() })
	if err != nil {
		return refuse(errnoOf(err), "event descriptor: %v", err)
	}
	e.fd, e.sink = fd, sink
	return nil
}

// takeBack removes the unread records about owner from the sink.
func (e *eventFile) takeBack(owner any) uint32 {
	var element uint64
	switch o := owner.(type) {
	case *cq:
		element = o.user
	case *qp:
		element = o.user
	case *srq:
		element = o.user
	}
	if e.closed || e.removed {
		return 0
	}
	prefix := string(event{element: element}.append(nil, 8))
	return uint32(e.sink.TakeBack(func(record []byte) bool { return string(record[:8]) == prefix }))
}

// neverArmed marks the arm record of a queue that was not armed yet: no arm
// value has its reserved bits.
const neverArmed = 1<<32 - 1

// markUnarmed lets an arm record be told from one of sequence number 0 and
// index 0. Where doorbells are polled, records are looked at for those that
// overwrote each other, of queues that were never armed as well.
func (c *call) markUnarmed(q *cq) {
	if c.caller != nil {
		c.mem.Store32(q.record+4, neverArmed)
	}
}

// share gives a doorbell page the memory that its process maps, if that is
// another one.
func (f *file) share(u *uar) error {
	if f.pages == nil {
		return nil
	}
	mem, err := f.pages.Page(u.offset)
	if err != nil {
		return refuse(errnoOf(err), "doorbell page: %v", err)
	}
	if err := u.mem.Free(); err != nil {
		u.nic.warn("doorbell page", "error", err)
	}
	u.mem, u.polled = mem, true
	f.pages.(*processPages).file.add(u)
	return nil
}

// errnoOf is the errno that an error of the process's side carries, or ENOMEM.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return enomem
}

// mayMap judges what all mappings have in common.
func (f *file) mayMap(length int) error {
	switch {
	case f.closed:
		return syscall.EBADF
	case f.nic.failed:
		return syscall.EIO
	case !f.context || length != hostmem.PageSize():
		return syscall.EINVAL
	}
	return nil
}

// mappable finds the page of a mapping.
func (f *file) mappable(offset int64, length int) (*uar, error) {
	if err := f.mayMap(length); err != nil {
		return nil, err
	}
	u, errno := f.pageAt(offset)
	if errno != 0 {
		f.nic.warn("mapping refused", "offset", offset, "error", errno)
		return nil, errno
	}
	return u, nil
}
