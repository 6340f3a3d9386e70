package verbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (n *node) Events(fd int) (EventFile, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), n.path+" events")
	// A file that the poller did not take has no deadlines, and a Read of it
	// could not be interrupted.
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("%w (closing: %v)", err, f.Close())
	}
	return &events{f}, nil
}

// events is an event descriptor of the kernel's.
type events struct{ *os.File }

// Read reads a record. Once the device is gone an empty descriptor polls as
// nothing but an error (Linux uverbs_main.c, ib_uverbs_event_poll), which Go's
// poller does not take for readable: it gives up without reading.
func (e *events) Read(b []byte) (int, error) {
	n, err := e.File.Read(b)
	if err == nil || final(err) {
		return n, err
	}
	return e.rest(b)
}

// final reports whether an error is the kernel's, or the file's user asked for it. It is
// apart from Read, which allocates nothing for a record.
func final(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) || errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

// rest reads a descriptor that the poller has given up. That nothing is there
// means that nothing will be: some kernels say so, others have a reader that does
// not block try again.
func (e *events) rest(b []byte) (n int, err error) {
	var readErr error
	raw, err := e.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), b) })
	}
	if err != nil {
		return 0, os.ErrClosed // all that a descriptor refuses this for
	}
	if readErr == unix.EAGAIN {
		readErr = unix.EIO
	}
	return max(n, 0), os.NewSyscallError("read", readErr)
}
