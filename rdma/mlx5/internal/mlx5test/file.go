// Package mlx5test is what the driver's tests share: a software NIC whose file
// can be told to refuse commands and that shows the doorbells, and the check
// that nothing was left open. In a virtual machine the same tests run on a device
// of the kernel's own mlx5 driver (DeviceEnv).
package mlx5test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Command names a command: a native method, or a write command if Write is set.
type Command struct {
	Object, Method uint16
	Write          uint32
}

// Issued is a command that was issued.
type Issued struct {
	Command
	Core, Driver []byte // its requests
}

// Bell is a store to a doorbell page.
type Bell struct {
	Offset int
	Bytes  []byte // what lies at the offset, up to 256 bytes
}

// File stands between a driver and a software NIC.
type File struct {
	verbs.File
	t testing.TB

	mu       sync.Mutex
	refusals map[Command]refusal
	replies  map[Command]func([]byte)
	log      []Issued
	bells    []Bell
	record   bool
	mapErr   error
	fdErr    error
}

type refusal struct {
	errno syscall.Errno
	after int // commands that pass before
}

// Open makes a software NIC and opens it. Both are closed with the test; the NIC
// has no link but the one in memory. On a device of the kernel's the NIC is nil.
func Open(t testing.TB, c softnic.Config) (*softnic.NIC, *File) {
	t.Helper()
	if OnKernel() {
		return nil, openKernel(t, c)
	}
	c.Link = softnic.LinkMemory
	if c.Logger == nil {
		c.Logger = Logger(t)
	}
	nic, err := softnic.New(&c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nic.Close() })
	return nic, OpenNIC(t, nic)
}

// OpenNIC opens a software NIC another time.
func OpenNIC(t testing.TB, nic *softnic.NIC) *File {
	t.Helper()
	file, err := nic.Open()
	require.NoError(t, err)
	return newFile(t, file)
}

func newFile(t testing.TB, file verbs.File) *File {
	return &File{File: file, t: t, refusals: map[Command]refusal{}, replies: map[Command]func([]byte){}}
}

// Refuse makes the command fail with errno after it has succeeded after times,
// until errno 0 is given.
func (f *File) Refuse(c Command, errno syscall.Errno, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals[c] = refusal{errno, after}
}

// Reply lets change have a command's core response before the driver does.
func (f *File) Reply(c Command, change func(response []byte)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[c] = change
}

// RefuseMap makes Map fail.
func (f *File) RefuseMap(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mapErr = err
}

// RefuseEvents makes Events fail.
func (f *File) RefuseEvents(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fdErr = err
}

// Issued are the requests of a command, in the order of their issue.
func (f *File) Issued(c Command) (all []Issued) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.log {
		if i.Command == c {
			all = append(all, i)
		}
	}
	return all
}

// Record keeps the doorbells rung from now on for Bells. It skips the test on a
// kernel's device, whose doorbells cannot be seen.
func (f *File) Record() {
	f.t.Helper()
	NeedSoft(f.t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record, f.bells = true, nil
}

// Bells are the doorbells rung since Record.
func (f *File) Bells() []Bell {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bells
}

// Ioctl passes the command on, or refuses it.
func (f *File) Ioctl(cmd []byte) error {
	issued := Issued{commandOf(cmd), input(cmd, uapi.AttrCoreIn), input(cmd, uapi.AttrUHWIn)}
	if errno := f.refuses(issued); errno != 0 {
		return errno
	}
	if err := f.File.Ioctl(cmd); err != nil {
		return err
	}
	f.mu.Lock()
	change := f.replies[issued.Command]
	f.mu.Unlock()
	if change != nil {
		change(output(cmd, uapi.AttrCoreOut))
	}
	return nil
}

func (f *File) refuses(i Issued) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, i)
	c := i.Command
	r := f.refusals[c]
	if r.after > 0 {
		r.after--
		f.refusals[c] = r
		return 0
	}
	return r.errno
}

// Events passes the call on, or refuses it.
func (f *File) Events(fd int) (verbs.EventFile, error) {
	f.mu.Lock()
	err := f.fdErr
	f.mu.Unlock()
	events, realErr := f.File.Events(fd)
	if realErr != nil || err == nil {
		return events, realErr
	}
	_ = events.Close()
	return nil, err
}

// Map passes the call on, or refuses it.
func (f *File) Map(offset int64, length int) (*verbs.Page, error) {
	f.mu.Lock()
	err := f.mapErr
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	page, err := f.File.Map(offset, length)
	if err != nil || OnKernel() {
		return page, err
	}
	return verbs.NewPage(page.Mem, func(at int) {
		f.rung(page.Mem, at)
		page.Wake(at)
	}, page.Unmap), nil
}

func (f *File) rung(mem []byte, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.record {
		n := 8
		if at >= 0x800 {
			n = 256
		}
		f.bells = append(f.bells, Bell{at, append([]byte(nil), mem[at:at+n]...)})
	}
}

func commandOf(cmd []byte) Command {
	r, err := uapi.Parse(cmd)
	if err != nil {
		return Command{}
	}
	c := Command{Object: r.Object(), Method: r.Method()}
	if c.Object == uapi.ObjectDevice && c.Method == uapi.MethodInvokeWrite {
		c.Write = uint32(r.Find(uapi.AttrWriteCmd).Data())
	}
	return c
}

// input is a copy of an input attribute of a command, nil if it has none.
func input(cmd []byte, id uint16) []byte {
	r, err := uapi.Parse(cmd)
	if err != nil {
		return nil
	}
	a := r.Find(id)
	if a == nil || a.Len() <= 8 {
		return append([]byte(nil), a.Inline()...)
	}
	return append([]byte(nil), hostmem.View(a.Data(), a.Len())...)
}

// output is the memory of an output attribute of a command, nil if it has none.
func output(cmd []byte, id uint16) []byte {
	r, err := uapi.Parse(cmd)
	if err != nil || r.Find(id) == nil {
		return nil
	}
	return hostmem.View(r.Find(id).Data(), r.Find(id).Len())
}
