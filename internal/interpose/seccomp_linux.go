//go:build amd64 || arm64

package interpose

import (
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif: a system call that waits for an answer.
type notification struct {
	_     structs.HostLayout
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	_     structs.HostLayout
	id    uint64
	value int64
	errno int32 // negative
	flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	_       structs.HostLayout
	id      uint64
	flags   uint32
	source  uint32
	target  uint32
	fdFlags uint32
}

// listener is the descriptor notifications come from.
type listener int

func (l listener) ioctl(request uint, arg unsafe.Pointer) (int, error) {
	for {
		v, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), uintptr(request), uintptr(arg))
		switch errno {
		case 0:
			return int(v), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// receive waits for a notification. ENOENT means that its caller was killed.
func (l listener) receive() (n notification, err error) {
	_, err = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n, err
}

// send answers. That the caller is gone meanwhile is no error of interest.
func (l listener) send(a answer) { _, _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) }

// give installs a copy of the descriptor fd in the caller, and returns its number there.
func (l listener) give(id uint64, fd int, flags uint32) (int, error) {
	a := addFD{id: id, source: uint32(fd), fdFlags: flags}
	return l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&a))
}

// waiting reports whether the caller still waits, so that its thread id is its own.
func (l listener) waiting(id uint64) bool {
	_, err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	return err == nil
}

// Check says whether programs can be run: nil, or an error that wraps ErrUnsupported.
func Check() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return &unsupportedError{errno}
	}
	return nil
}

type unsupportedError struct{ errno unix.Errno }

func (e *unsupportedError) Error() string   { return ErrUnsupported.Error() + ": " + e.errno.Error() }
func (e *unsupportedError) Unwrap() []error { return []error{ErrUnsupported, e.errno} }

// installFilter puts this thread, and what it will execute, under the filter.
func installFilter(prog []unix.SockFilter) (listener, error) {
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	// A signal must not tear a command from the NIC; kernels before 5.19 do
	// not know the flag.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	for _, extra := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags|extra, uintptr(unsafe.Pointer(&p)))
		if errno == 0 {
			return listener(fd), nil
		}
		if errno != unix.EINVAL || extra == 0 {
			return -1, errno
		}
	}
	panic("unreachable")
}

// bytesOf is the memory of a structure of the kernel's.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
