//go:build amd64 || arm64

package interpose

import (
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/uapi"
)

// rule is a system call that does not simply go to the kernel.
type rule struct {
	nr     uint32
	when   []condition // all of them
	action uint32      // SECCOMP_RET_...
}

// condition holds if the low word of argument arg, masked, is value.
type condition struct {
	arg, mask, value uint32
}

const (
	notify = unix.SECCOMP_RET_USER_NOTIF
	refuse = unix.SECCOMP_RET_ERRNO
	all    = 1<<32 - 1

	sharedFile = unix.MAP_SHARED | unix.MAP_ANONYMOUS
)

// opens is the condition of an open for reading and writing of what is there.
func opens(flags uint32) []condition {
	return []condition{{flags, unix.O_ACCMODE | unix.O_CREAT, unix.O_RDWR}}
}

// rules are those of every architecture. NETLINK_RDMA is refused as where no
// RDMA module is loaded, so that libraries look at sysfs and do not find
// hardware of this machine.
func rules() []rule {
	list := []rule{
		{unix.SYS_IOCTL, []condition{{1, all, uapi.RDMAVerbsIoctl}}, notify},
		{unix.SYS_OPENAT, opens(2), notify},
		{unix.SYS_NEWFSTATAT, nil, notify},
		{unix.SYS_FSTAT, nil, notify},
		{unix.SYS_STATX, nil, notify},
		{unix.SYS_MMAP, []condition{{3, sharedFile, unix.MAP_SHARED}}, notify}, // MAP_SHARED_VALIDATE too
		{unix.SYS_LISTEN, nil, notify},
		{unix.SYS_SOCKET, []condition{{0, all, unix.AF_NETLINK}, {2, all, unix.NETLINK_RDMA}},
			refuse | uint32(unix.EPROTONOSUPPORT)},
	}
	return append(list, archRules...)
}

// Offsets in struct seccomp_data (linux/seccomp.h). Both architectures are
// little endian, so an argument's low word comes first.
const (
	dataNR   = 0
	dataArch = 4
	dataArgs = 16
)

// filter compiles rules.
func filter(rules []rule) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		and  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		jeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	allow := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	prog := []unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: jeq, K: auditArch, Jt: 1},
		allow,
	}
	for _, r := range rules {
		rest := 3*len(r.when) + 1 // instructions after the number's test
		prog = append(prog,
			unix.SockFilter{Code: load, K: dataNR},
			unix.SockFilter{Code: jeq, K: r.nr, Jf: uint8(rest)})
		for _, c := range r.when {
			rest -= 3
			prog = append(prog,
				unix.SockFilter{Code: load, K: dataArgs + 8*c.arg},
				unix.SockFilter{Code: and, K: c.mask},
				unix.SockFilter{Code: jeq, K: c.value, Jf: uint8(rest)})
		}
		prog = append(prog, unix.SockFilter{Code: ret, K: r.action})
	}
	return append(prog, allow)
}
