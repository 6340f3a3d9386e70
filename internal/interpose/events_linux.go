//go:build amd64 || arm64

package interpose

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/softnic"
)

// caller is the process of a command, for the NIC.
type caller struct {
	call *call
	file *deviceFile
	mem  *processMemory
}

// Process is the process's number.
func (c *caller) Process() int { return c.mem.pid }

// Memory is the process's memory.
func (c *caller) Memory() softnic.Memory { return c.mem }

// eventSink is an event descriptor of a program: a socket whose other end the
// program has. A read gives one record; after the device's end it gives no bytes,
// where the kernel gives EIO.
type eventSink struct {
	file  *deviceFile
	inode uint64 // of the program's end
	ours  *os.File

	mu       sync.Mutex
	backlog  [][]byte // not sent yet
	draining bool     // a goroutine sends the backlog
	closed   bool
}

// NewEvents makes a socket pair and gives the program one end.
func (c *caller) NewEvents(_ int, closed func()) (int, softnic.EventSink, error) {
	s, theirs, err := newSink(c.file)
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(theirs)
	fd, err := c.call.process.listener.give(c.call.n.id, theirs, unix.O_CLOEXEC)
	if err != nil {
		s.Close()
		return 0, nil, err
	}
	s.start(closed)
	return fd, s, nil
}

// newSink makes a socket pair. The end that is returned is the caller's.
func newSink(f *deviceFile) (s *eventSink, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fds[1], &st); err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	if err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, -1, err
	}
	return &eventSink{file: f, inode: st.Ino, ours: os.NewFile(uintptr(fds[0]), "events")}, fds[1], nil
}

// start makes the sink known and waits for its end.
func (s *eventSink) start(closed func()) {
	s.file.mu.Lock()
	s.file.events[s.inode] = s
	s.file.mu.Unlock()
	go s.waitEnd(closed)
}

// Events is the sink whose other end a descriptor of the process is.
func (c *caller) Events(fd int) softnic.EventSink {
	inode, ok := socketOf(c.call.tid(), fd)
	if !ok {
		return nil
	}
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	if s := c.file.events[inode]; s != nil {
		return s
	}
	return nil
}

// socketOf is the inode of the socket that a descriptor of a process is.
func socketOf(pid, fd int) (inode uint64, ok bool) {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
	if !ok {
		return 0, false
	}
	inode, err = strconv.ParseUint(number, 10, 64)
	return inode, err == nil
}

// waitEnd returns when no process has the other end any more, or after Close.
// Programs write nothing to such descriptors; what they do is ignored.
func (s *eventSink) waitEnd(closed func()) {
	var buf [16]byte
	for {
		if n, err := s.ours.Read(buf[:]); n == 0 || err != nil {
			break
		}
	}
	s.file.mu.Lock()
	delete(s.file.events, s.inode)
	s.file.mu.Unlock()
	closed()
	s.Close()
}

// Put sends a record, or has a goroutine do so once the socket has room.
func (s *eventSink) Put(record []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.backlog = append(s.backlog, record)
	s.flush()
}

// flush sends what the socket has room for, and has a goroutine send the rest.
func (s *eventSink) flush() {
	conn, err := s.ours.SyscallConn()
	if err != nil || s.draining {
		return
	}
	done := true
	_ = conn.Control(func(fd uintptr) { done = s.send(int(fd)) })
	if !done {
		s.draining = true
		go s.drain(conn)
	}
}

// send sends the backlog; false means that the socket is full.
func (s *eventSink) send(fd int) (done bool) {
	for len(s.backlog) > 0 && !s.closed {
		if _, err := unix.SendmsgN(fd, s.backlog[0], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err == unix.EAGAIN {
			return false
		}
		s.backlog = s.backlog[1:]
	}
	return true
}

// drain sends the backlog as the program reads, until there is none.
func (s *eventSink) drain(conn syscall.RawConn) {
	_ = conn.Write(func(fd uintptr) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.draining = !s.send(int(fd))
		return !s.draining
	})
}

// TakeBack reads the records that the program did not, and sends those again
// that are to stay. The program's end is borrowed for that: this process does
// not keep it, so that its closing can be noticed.
func (s *eventSink) TakeBack(drop func([]byte) bool) (dropped int) {
	theirs := s.borrow()
	defer unix.Close(theirs)
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept [][]byte
	keep := func(record []byte) {
		if drop(record) {
			dropped++
		} else {
			kept = append(kept, record)
		}
	}
	for {
		buf := make([]byte, 16)
		n, _, err := unix.Recvfrom(theirs, buf, unix.MSG_DONTWAIT)
		if err != nil || n == 0 {
			break
		}
		keep(buf[:n])
	}
	for _, record := range s.backlog {
		keep(record)
	}
	s.backlog = kept
	s.flush()
	return dropped
}

// borrow opens the program's end in this process, or returns -1.
func (s *eventSink) borrow() int {
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	for pid := range s.file.memories {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			continue
		}
		for _, e := range fds {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if inode, ok := socketOf(pid, fd); ok && inode == s.inode {
				if copied := copyFD(pid, fd); copied >= 0 {
					return copied
				}
			}
		}
	}
	return -1
}

// copyFD duplicates a descriptor of another process, or returns -1.
func copyFD(pid, fd int) int {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(process)
	copied, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return -1
	}
	return copied
}

// Close ends the socket; the program reads its end after the queued records.
func (s *eventSink) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !closed {
		_ = s.ours.Close() // waits for drain, which wants the lock
	}
}
