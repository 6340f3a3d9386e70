package verbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// memlockChild in the environment makes a test binary register memory as a
// process that may lock this many bytes and has no capabilities.
const memlockChild = "FARWIRE_TEST_MEMLOCK"

// TestKernelMemlock has the kernel refuse memory, and reads what a user is told.
func TestKernelMemlock(t *testing.T) {
	if os.Getenv(memlockChild) != "" {
		memlocked(t)
		return
	}
	needMachine(t)
	d, f := softRoCE(t)
	require.NoError(t, f.Close())
	require.NoError(t, os.Chmod("/dev/infiniband/"+d.UverbsName, 0o666))
	for _, tt := range []struct {
		limit string
		want  string
	}{
		{"65536", "register memory: cannot allocate memory (131072 bytes have to be locked, the locked-memory limit (RLIMIT_MEMLOCK) is 65536 bytes; raise it or grant CAP_IPC_LOCK)"},
		{"0", "register memory: operation not permitted (131072 bytes have to be locked, the locked-memory limit (RLIMIT_MEMLOCK) is 0 bytes; raise it or grant CAP_IPC_LOCK)"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKernelMemlock$", "-test.v")
		cmd.Env = append(os.Environ(), memlockChild+"="+tt.limit)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), tt.want)
	}
}

// memlocked registers twice what it may lock, after as much as it may.
func memlocked(t *testing.T) {
	var limit uint64
	_, err := fmt.Sscan(os.Getenv(memlockChild), &limit)
	require.NoError(t, err)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}))
	_, f := softRoCE(t)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	pd, err := c.AllocPD(nil)
	require.NoError(t, err)
	mem, err := hostmem.Alloc(128 << 10)
	require.NoError(t, err)
	register := func(n uint64) (MR, error) {
		return c.RegMR(RegMR{PD: pd, Addr: mem.Addr(), IOVA: mem.Addr(), Length: n, Access: AccessLocalWrite})
	}
	if limit > 0 {
		mr, err := register(limit)
		require.NoError(t, err)
		_, err = register(4096)
		require.ErrorIs(t, err, ErrLockedMemory, "the same memory counts twice")
		require.NoError(t, c.DeregMR(mr.Handle))
	}
	_, err = register(128 << 10)
	require.ErrorIs(t, err, ErrLockedMemory)
	require.True(t, errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM))
	t.Log(err)
	require.NoError(t, c.Close())
	require.NoError(t, mem.Free())
}
