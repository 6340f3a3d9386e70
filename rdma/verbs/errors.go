package verbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

var (
	// ErrDeviceRemoved is matched by the error of a command or event read on a
	// device that has been unplugged, unbound or reset for good.
	ErrDeviceRemoved = errors.New("device removed")

	// ErrDeviceFatal reports a device that said EventDeviceFatal: nothing that
	// was posted will complete.
	ErrDeviceFatal = errors.New("device failed")

	// ErrLockedMemory is matched by the error of a command that was refused
	// because the process may not lock that much memory.
	ErrLockedMemory = errors.New("locked-memory limit")
)

// SyscallError is a command that the kernel, or the software NIC, refused. It
// matches its errno; ErrDeviceRemoved for EIO and ENODEV; ErrLockedMemory if
// the locked-memory limit is the likely cause; and errors.ErrUnsupported for an
// object, method or attribute that the kernel does not know.
type SyscallError struct {
	Call  string // what was being done, e.g. "create cq"
	Errno syscall.Errno
	Hint  string // likely cause and remedy, or ""

	locked bool
}

// Error returns the call, the errno in words and the hint.
func (e *SyscallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Call, e.Errno.Error())
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the errno.
func (e *SyscallError) Unwrap() error { return e.Errno }

// Is matches the sentinels named above.
func (e *SyscallError) Is(target error) bool {
	switch target {
	case ErrDeviceRemoved:
		return e.Errno == syscall.EIO || e.Errno == syscall.ENODEV
	case ErrLockedMemory:
		return e.locked
	case errors.ErrUnsupported:
		return e.Errno == syscall.EPROTONOSUPPORT || e.Errno == syscall.ENOTTY
	}
	return false
}
