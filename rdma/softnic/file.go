package softnic

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// file is one open user-verbs file of the NIC and its user context. Its fields
// but commands are guarded by NIC.mu.
type file struct {
	nic     *NIC
	number  int    // of the NIC's files, from 1 on
	process int    // that opened it
	mem     memory // of the process that has the NIC; nil if commands say whose they are
	pages   Pages  // nil: doorbell pages are this process's

	commands sync.RWMutex // held for reading by commands, for writing by Close

	closed  bool
	refs    int  // the file until it is closed, and each of its mappings
	context bool // GET_CONTEXT was done

	oldCQE      bool   // completions of version 0
	staticPages []*uar // in static mode, by index
	registers   []int  // in static mode: queue pairs on each register
	lowLatency  int    // of them at the end, for one queue pair each

	objects objects
	mapped  map[int64]*uar // dynamic pages by mapping offset
	events  map[*eventFile]bool
	fds     map[int]*eventFile // not taken over yet
	nextFD  int
	async   *eventFile // default for objects
	pinned  int64
}

var _ verbs.File = (*file)(nil)

// Open opens the NIC as its device node is opened. Each open file is a user
// context of its own. It fails with syscall.EIO when the NIC has failed or was
// closed.
func (n *NIC) Open() (verbs.File, error) { return n.open(os.Getpid(), ownMemory{}) }

func (n *NIC) open(process int, mem memory) (*file, error) {
	n.lock()
	defer n.unlock()
	if n.failed {
		return nil, &os.PathError{Op: "open", Path: n.cfg.Name, Err: syscall.EIO}
	}
	n.opened++
	f := &file{
		nic: n, number: n.opened, process: process, mem: mem, refs: 1,
		mapped: map[int64]*uar{}, events: map[*eventFile]bool{}, fds: map[int]*eventFile{},
		nextFD: firstFD,
	}
	n.files[f] = true
	if n.tracing() {
		n.tell(f.origin(), trace.Record{Kind: trace.Open})
	}
	return f, nil
}

// firstFD is where event descriptors start: their numbers mean something to
// this file only, and should not be mistaken for the process's own.
const firstFD = 1 << 20

// Ioctl executes one command.
func (f *file) Ioctl(cmd []byte) error { return f.command(cmd, nil, f.mem) }

// command executes a command of caller, which is nil for this process's own.
func (f *file) command(cmd []byte, caller Caller, mem memory) error {
	f.commands.RLock()
	defer f.commands.RUnlock()
	n := f.nic
	n.lock()
	defer n.unlock()
	if caller != nil && n.pending.Load() {
		n.process(inlineWork) // what the caller rang while somebody else had the NIC
	}
	n.count.Commands++
	t := f.traceCommand(cmd, caller, mem)
	var name string
	err := n.asking(func() (err error) {
		t.again()
		name, err = f.execute(cmd, caller, mem, t)
		return err
	})
	if err == nil {
		t.end(nil)
		return nil
	}
	var refused *uapi.RequestError
	if !errors.As(err, &refused) {
		refused = &uapi.RequestError{Errno: syscall.EINVAL, Reason: err.Error()}
	}
	t.end(refused)
	return refusal(refused, n, name)
}

func (f *file) execute(cmd []byte, caller Caller, mem memory, t *commandTrace) (name string, err error) {
	if f.closed {
		return "", refuse(syscall.EBADF, "file is closed")
	}
	r, err := uapi.Parse(cmd)
	if err != nil {
		return "", err
	}
	m, err := f.nic.methods.Match(r, uapi.DriverMLX5, mem)
	if err != nil {
		return "", err
	}
	t.inputs()
	id := methodID{m.Object, m.ID}
	if f.nic.failed && id != invokeMethod && !destroyers[id] {
		return m.Name, refuse(eio, "device has failed")
	}
	c := &call{file: f, nic: f.nic, caller: caller, mem: mem, req: r, name: m.Name,
		uhwIn: r.Find(uapi.AttrUHWIn), uhwOut: r.Find(uapi.AttrUHWOut),
		origin: origin{f.number, processOf(caller)}, trace: t}
	err = handlers[id](c)
	return c.name, err
}

// Map maps a doorbell page.
func (f *file) Map(offset int64, length int) (*verbs.Page, error) {
	n := f.nic
	n.lock()
	defer n.unlock()
	if mapsClockInfo(offset) {
		return f.mapClock(offset, length)
	}
	u, err := f.mappable(offset, length)
	f.traceMap(os.Getpid(), offset, length, u.number(), err)
	if err != nil {
		return nil, err
	}
	u.refs++
	f.refs++
	return verbs.NewPage(u.mem.Bytes(), u.wake, func() error {
		n.lock()
		defer n.unlock()
		u.put()
		f.put()
		return nil
	}), nil
}

// Events takes over an event descriptor.
func (f *file) Events(fd int) (verbs.EventFile, error) {
	n := f.nic
	n.lock()
	defer n.unlock()
	e := f.fds[fd]
	if e == nil {
		return nil, syscall.EBADF
	}
	delete(f.fds, fd)
	return e, nil
}

// Close closes the file. Its context goes when the last mapping has.
func (f *file) Close() error {
	f.commands.Lock()
	defer f.commands.Unlock()
	n := f.nic
	n.lock()
	defer n.unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	if n.tracing() {
		n.tell(f.origin(), trace.Record{Kind: trace.Close})
	}
	f.put()
	return nil
}

// put ends a use of the file; the last one ends the context.
func (f *file) put() {
	if f.refs--; f.refs > 0 {
		return
	}
	f.dropObjects()
	delete(f.nic.files, f)
}

// objectKinds are the kinds of objects, users before what they use.
var objectKinds = []uint16{uapi.ObjectAH, uapi.ObjectQP, uapi.ObjectSRQ, uapi.ObjectCQ, uapi.ObjectMR, uapi.ObjectPD, objectUAR}

// dropObjects destroys everything the context has. Pages stay for as long as
// they are mapped.
func (f *file) dropObjects() {
	for _, kind := range objectKinds {
		for h := range f.objects.all(kind) {
			f.drop(h)
		}
	}
	f.dropContext()
}

// dropContext ends a context, but for its objects.
func (f *file) dropContext() {
	f.dropStatic()
	f.registers = nil
	for e := range f.events {
		if f.fds[e.fd] == e || e.sink != nil {
			e.shut()
			f.forgetEvents(e)
		}
	}
	clear(f.fds)
	if f.context {
		f.context = false
		f.nic.count.Contexts--
	}
}

// newEvents makes an event descriptor.
func (c *call) newEvents(size int) (*eventFile, error) {
	f := c.file
	e := newEventFile(size, f.nextFD)
	e.origin = c.origin
	e.closing = func() {
		f.nic.lock()
		defer f.nic.unlock()
		f.forgetEvents(e)
	}
	if c.caller != nil {
		if err := c.handOut(e); err != nil {
			return nil, err
		}
	} else {
		f.nextFD++
		f.fds[e.fd] = e
	}
	f.events[e] = true
	f.nic.count.EventFiles++
	return e, nil
}

// dropEvents takes back an event descriptor whose number could not be delivered.
func (f *file) dropEvents(e *eventFile) {
	e.shut()
	if f.fds[e.fd] == e {
		delete(f.fds, e.fd)
	}
	f.forgetEvents(e)
}

// forgetEvents ends the accounting of an event descriptor that was closed.
func (f *file) forgetEvents(e *eventFile) {
	if f.events[e] {
		delete(f.events, e)
		f.nic.count.EventFiles--
	}
}

// removeChannels makes reads of completion channels fail after what is queued.
// Asynchronous event files just have nothing more to tell.
func (f *file) removeChannels() {
	for e := range f.events {
		if e.size == completionRecord {
			e.remove()
		}
	}
}

// eventsOf finds the open event file with a descriptor, taken over or not, and
// records of a size.
func (c *call) eventsOf(fd, size int) *eventFile {
	var sink EventSink
	if c.caller != nil {
		if sink = c.caller.Events(fd); sink == nil {
			return nil
		}
	}
	for e := range c.file.events {
		if e.size == size && (sink == nil && e.fd == fd || sink != nil && e.sink == sink) {
			return e
		}
	}
	return nil
}

// Sizes of event records.
const (
	completionRecord = 8
	asyncRecord      = 16
)
