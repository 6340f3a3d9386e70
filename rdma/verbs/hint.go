package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

// fileError turns the error of a File's method into the package's. An error
// that is no errno breaks the File's contract and is passed on as it is.
func fileError(o op, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	e := &SyscallError{Call: o.name, Errno: errno}
	switch errno {
	case syscall.ENOMEM, syscall.EPERM:
		if o.pins {
			e.Hint, e.locked = o.memlockHint(), true
		}
	case syscall.EIO, syscall.ENODEV:
		e.Hint = "the device was removed"
	case syscall.EAGAIN:
		e.Hint = "the device is being reset; try again"
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT:
		e.Hint = "the peer's address was not resolved: look at routes and neighbours of the GID's interface, and its network namespace"
	case syscall.EPROTONOSUPPORT:
		e.Hint = "this kernel or driver does not know the command"
	case syscall.ENOTTY:
		e.Hint = "this kernel has no user-verbs ioctls; Linux 5.4 or newer is needed"
	}
	return e
}

func (o op) memlockHint() string {
	asked := "memory has to be locked"
	if o.bytes > 0 {
		asked = fmt.Sprintf("%d bytes have to be locked", o.bytes)
	}
	return fmt.Sprintf("%s, %s; raise it or grant CAP_IPC_LOCK", asked, memlockText(memlockLimit()))
}

func memlockText(limit uint64, known bool) string {
	const name = "the locked-memory limit (RLIMIT_MEMLOCK)"
	switch {
	case !known:
		return name + " is unknown"
	case limit == ^uint64(0):
		return name + " is unlimited"
	}
	return fmt.Sprintf("%s is %d bytes", name, limit)
}

// openError is the error of opening a device node.
func openError(path string, err error) error {
	o := op{name: "open " + path}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	e := &SyscallError{Call: o.name, Errno: errno}
	switch errno {
	case syscall.EACCES, syscall.EPERM:
		e.Hint = "check the node's permissions, the container's device cgroup (character major 231) and the RDMA network namespace"
	case syscall.ENOENT:
		e.Hint = "is the module ib_uverbs loaded, and mlx5_ib for a ConnectX, and the node passed into this container?"
	case syscall.ENXIO, syscall.ENODEV, syscall.EIO:
		e.Hint = "the device was removed"
	}
	return e
}
