//go:build amd64 || arm64

package interpose

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/softnic"
)

// deviceFile is an open device node: a file in memory, as long as the offsets
// of doorbell pages go, and the NIC's file behind it.
type deviceFile struct {
	id      uint64
	device  *device
	memfd   int
	nicFile *softnic.ProcessFile

	mu       sync.Mutex
	memories map[int]*processMemory // by process
	old      []*processMemory       // that objects may still have
	events   map[uint64]*eventSink  // by inode
}

const (
	fileName = "farwire-uverbs-"
	fileSize = 1 << 36 // past the last mapping offset, with pages of 4 KiB
)

// open makes a file and gives the program a descriptor of it. The descriptor's
// open file is not this process's own, so its end can be watched for.
func (h *Host) open(c *call, d *device, flags uint32) (fd int, err error) {
	pid, err := processOf(c.tid())
	if err != nil {
		return 0, err
	}
	f := &deviceFile{device: d, memories: map[int]*processMemory{}, events: map[uint64]*eventSink{}}
	h.mu.Lock()
	f.id = h.nextFile
	h.nextFile++
	h.mu.Unlock()
	if f.memfd, err = unix.MemfdCreate(fileName+strconv.FormatUint(f.id, 10), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return 0, err
	}
	if f.nicFile, err = d.nic.OpenFor(pid, f); err != nil {
		_ = unix.Close(f.memfd)
		return 0, err
	}
	// From here on the end of the descriptor below undoes everything.
	h.mu.Lock()
	h.files[f.id] = f
	h.mu.Unlock()
	theirs, err := f.prepare(h)
	if err != nil {
		h.fileEnded(f.id)
		return 0, err
	}
	defer unix.Close(theirs)
	h.poller.add(f.nicFile)
	return c.process.listener.give(c.n.id, theirs, flags)
}

// prepare gives the file its size, which nobody can change, and opens it anew.
func (f *deviceFile) prepare(h *Host) (theirs int, err error) {
	size := int64(fileSize) * int64(hostmem.PageSize()) / 4096
	if err := unix.Ftruncate(f.memfd, size); err != nil {
		return 0, err
	}
	if _, err := unix.FcntlInt(uintptr(f.memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return 0, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", f.memfd)
	theirs, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := h.watch.add(path, f.id); err != nil {
		_ = unix.Close(theirs)
		return 0, err
	}
	return theirs, nil
}

// fileOf is the file behind a descriptor of a program, or nil.
func (h *Host) fileOf(tid, fd int) *deviceFile {
	if fd < 0 {
		return nil
	}
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
	if err != nil {
		return nil
	}
	rest, ok := strings.CutPrefix(target, "/memfd:"+fileName)
	if !ok {
		return nil
	}
	number, _, _ := strings.Cut(rest, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files[id]
}

// fileEnded ends a file that no program has open or mapped any more.
func (h *Host) fileEnded(id uint64) {
	h.mu.Lock()
	f := h.files[id]
	delete(h.files, id)
	h.mu.Unlock()
	if f == nil {
		return
	}
	h.poller.remove(f.nicFile)
	if err := f.nicFile.Close(); err != nil {
		h.log.Warn("closing a file", "file", id, "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.memories {
		f.old = append(f.old, m)
	}
	for _, m := range f.old {
		_ = m.mem.Close()
	}
	for _, s := range f.events {
		s.Close()
	}
	_ = unix.Close(f.memfd)
}

// memoryOf is the memory of the process of a thread, which has something at
// addr. If the process has executed another program since its last command, it is
// another memory.
func (f *deviceFile) memoryOf(tid int, addr uint64) (*processMemory, error) {
	pid, err := processOf(tid)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.memories[pid]
	if m != nil && m.has(addr) {
		return m, nil
	}
	if m != nil {
		f.old = append(f.old, m)
	}
	if m, err = openMemory(pid); err != nil {
		return nil, err
	}
	f.memories[pid] = m
	return m, nil
}

// processOf is the process that a thread belongs to.
func processOf(tid int) (pid int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, err
	}
	const field = "\nTgid:\t"
	_, rest, ok := bytes.Cut(status, []byte(field))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, unix.ESRCH
	}
	return strconv.Atoi(string(value))
}

// Page maps a doorbell page of the file.
func (f *deviceFile) Page(offset int64) (softnic.PageMemory, error) {
	b, err := unix.Mmap(f.memfd, offset, hostmem.PageSize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	clear(b)
	return doorbells(b), nil
}

// doorbells is a doorbell page.
type doorbells []byte

func (d doorbells) Bytes() []byte { return d }
func (d doorbells) Free() error   { return unix.Munmap(d) }
