package verbs

import (
	"fmt"
	"syscall"
)

// hintFor returns the likely cause and remedy of an errno of a command that
// asked the kernel to pin the given number of bytes, and whether it is the
// locked-memory limit.
func hintFor(errno syscall.Errno, pinned uint64) (hint string, locked bool) {
	switch errno {
	case syscall.ENOMEM, syscall.EPERM:
		if pinned > 0 {
			return fmt.Sprintf("pinning %d bytes; %s; raise it or grant CAP_IPC_LOCK", pinned, memlock()), true
		}
	case syscall.EIO, syscall.ENODEV:
		return "the device was removed", false
	case syscall.EPROTONOSUPPORT:
		return "this kernel or driver does not know the command", false
	case syscall.ENOTTY:
		return "this kernel has no user-verbs ioctls; Linux 5.4 or newer is needed", false
	}
	return "", false
}

// memlock describes the locked-memory limit. Tests replace it.
var memlock = func() string {
	cur, ok := memlockLimit()
	switch {
	case !ok:
		return "the locked-memory limit (RLIMIT_MEMLOCK) is unknown"
	case cur == ^uint64(0):
		return "the locked-memory limit (RLIMIT_MEMLOCK) is unlimited"
	}
	return fmt.Sprintf("the locked-memory limit (RLIMIT_MEMLOCK) is %d bytes", cur)
}
