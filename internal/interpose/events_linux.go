//go:build amd64 || arm64

package interpose

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/softnic"
)

// caller is the process of a command, for the NIC.
type caller struct {
	call *call
	file *deviceFile
	mem  *processMemory
}

// Memory is the process's memory.
func (c *caller) Memory() softnic.Memory { return c.mem }

// eventSink is an event descriptor of a program: a socket whose other end the
// program has. A read gives one record.
type eventSink struct {
	file  *deviceFile
	inode uint64 // of the program's end
	ours  *os.File

	mu      sync.Mutex
	backlog [][]byte // of a socket that is full, while a goroutine writes it
	closed  bool
}

// NewEvents makes a socket pair and gives the program one end.
func (c *caller) NewEvents(_ int, closed func()) (int, softnic.EventSink, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(fds[1])
	var st unix.Stat_t
	if err = unix.Fstat(fds[1], &st); err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	s := &eventSink{file: c.file, inode: st.Ino, ours: os.NewFile(uintptr(fds[0]), "events")}
	var fd int
	if err == nil {
		fd, err = c.call.process.listener.give(c.call.n.id, fds[1], unix.O_CLOEXEC)
	}
	if err != nil {
		_ = s.ours.Close()
		return 0, nil, err
	}
	c.file.mu.Lock()
	c.file.events[s.inode] = s
	c.file.mu.Unlock()
	go s.waitEnd(closed)
	return fd, s, nil
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

// Put sends a record, or has a goroutine do so if the socket is full.
func (s *eventSink) Put(record []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case len(s.backlog) > 0:
		s.backlog = append(s.backlog, record)
	case !s.try(record):
		s.backlog = append(s.backlog, record)
		go s.drain()
	}
}

// try sends a record; false means that the socket is full.
func (s *eventSink) try(record []byte) bool {
	conn, err := s.ours.SyscallConn()
	if err != nil {
		return true
	}
	_ = conn.Control(func(fd uintptr) {
		_, err = unix.SendmsgN(int(fd), record, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return err != unix.EAGAIN
}

// drain writes the backlog, in its order.
func (s *eventSink) drain() {
	for {
		s.mu.Lock()
		if len(s.backlog) == 0 {
			s.mu.Unlock()
			return
		}
		record := s.backlog[0]
		s.mu.Unlock()
		if _, err := s.ours.Write(record); err != nil {
			return
		}
		s.mu.Lock()
		if len(s.backlog) > 0 {
			s.backlog = s.backlog[1:]
		}
		s.mu.Unlock()
	}
}

// TakeBack reads the records that the program did not, and sends those again
// that are to stay. The program's end is borrowed for that: this process does
// not keep it, so that its closing can be noticed.
func (s *eventSink) TakeBack(drop func([]byte) bool) (dropped int) {
	theirs := s.borrow()
	if theirs < 0 {
		return 0
	}
	defer unix.Close(theirs)
	s.mu.Lock()
	defer s.mu.Unlock()
	var records [][]byte
	for {
		buf := make([]byte, 16)
		n, _, err := unix.Recvfrom(theirs, buf, unix.MSG_DONTWAIT)
		if err != nil || n == 0 {
			break
		}
		records = append(records, buf[:n])
	}
	for i, r := range append(records, s.backlog...) {
		switch {
		case drop(r):
			dropped++
		case i < len(records):
			s.try(r)
		}
	}
	kept := s.backlog[:0]
	for _, r := range s.backlog {
		if !drop(r) {
			kept = append(kept, r)
		}
	}
	s.backlog = kept
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
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.ours.Close()
	}
}
