//go:build amd64 || arm64

package interpose

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/uapi"
)

// judge is what the filter says about a call. The interpreter reads words as they
// are in packets, in big-endian order.
func judge(t *testing.T, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var prog []bpf.Instruction
	for _, f := range filter(rules()) {
		prog = append(prog, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble())
	}
	vm, err := bpf.NewVM(prog)
	require.NoError(t, err)
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[dataNR:], nr)
	binary.BigEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[dataArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[dataArgs+8*i+4:], uint32(a>>32))
	}
	v, err := vm.Run(data)
	require.NoError(t, err)
	return uint32(v)
}

func TestFilter(t *testing.T) {
	const allow = unix.SECCOMP_RET_ALLOW
	for _, c := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"command", unix.SYS_IOCTL, []uint64{3, uapi.RDMAVerbsIoctl}, notify},
		{"other ioctl", unix.SYS_IOCTL, []uint64{3, uapi.RDMAVerbsIoctl + 1}, allow},
		{"open to write", unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDWR | unix.O_CLOEXEC}, notify},
		{"open to read", unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDONLY | unix.O_CLOEXEC}, allow},
		{"create", unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDWR | unix.O_CREAT}, allow},
		{"stat", unix.SYS_NEWFSTATAT, nil, notify},
		{"fstat", unix.SYS_FSTAT, nil, notify},
		{"statx", unix.SYS_STATX, nil, notify},
		{"map a file", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_WRITE, unix.MAP_SHARED, 3}, notify},
		{"map a file strictly", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_WRITE, unix.MAP_SHARED_VALIDATE, 3}, notify},
		{"map a copy", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_WRITE, unix.MAP_PRIVATE, 3}, allow},
		{"map memory", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_ANONYMOUS, 3}, allow},
		{"listen", unix.SYS_LISTEN, nil, notify},
		{"netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA}, refuse | uint32(unix.EPROTONOSUPPORT)},
		{"other netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"other socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.NETLINK_RDMA}, allow},
		{"read", unix.SYS_READ, nil, allow},
	} {
		require.Equal(t, c.want, judge(t, auditArch, c.nr, c.args...), c.name)
		require.Equal(t, uint32(allow), judge(t, auditArch^1, c.nr, c.args...), "%s on another architecture", c.name)
	}
	for _, r := range archRules {
		require.Equal(t, uint32(notify), judge(t, auditArch, r.nr, 0, unix.O_RDWR))
	}
}
