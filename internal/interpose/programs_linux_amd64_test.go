package interpose

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// oldCalls makes the calls that C libraries of old make.
func oldCalls(fd int) {
	path, err := unix.BytePtrFromString(node)
	must(err)
	for _, nr := range []uintptr{unix.SYS_STAT, unix.SYS_LSTAT} {
		var st unix.Stat_t
		_, _, errno := unix.Syscall(nr, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&st)), 0)
		expect(errno == 0 && st.Rdev == unix.Mkdev(231, 192), "call %d: %v, %+v", nr, errno, st)
	}
	again, _, errno := unix.Syscall(unix.SYS_OPEN, uintptr(unsafe.Pointer(path)), unix.O_RDWR, 0)
	expect(errno == 0, "open: %v", errno)
	flags, err := unix.FcntlInt(again, unix.F_GETFD, 0)
	must(err)
	expect(flags&unix.FD_CLOEXEC == 0, "descriptor closes although nobody asked for it")
	must(unix.Close(int(again)))
	_, _, errno = unix.Syscall(unix.SYS_STAT, uintptr(unsafe.Pointer(path)), 0, 0)
	expect(errno == unix.EFAULT, "stat to nowhere: %v", errno)
}
