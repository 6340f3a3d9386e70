//go:build amd64 || arm64

package interpose

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// ownProcess is the memory of this process, and some of it.
func ownProcess(t *testing.T) (*processMemory, *hostmem.Memory) {
	t.Helper()
	m, err := openMemory(os.Getpid())
	require.NoError(t, err)
	b, err := hostmem.Alloc(3 * hostmem.PageSize())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.mem.Close())
		require.NoError(t, b.Free())
	})
	return m, b
}

func TestProcessMemory(t *testing.T) {
	m, b := ownProcess(t)
	at := b.Addr()
	require.NoError(t, m.Write(at+1, []byte("hello")))
	require.Equal(t, "\x00hello\x00", string(b.Bytes()[:7]))
	var got [5]byte
	require.NoError(t, m.Read(at+1, got[:]))
	require.Equal(t, "hello", string(got[:]))

	require.True(t, m.Store32(at+8, 0x01020304))
	v, ok := m.Load32(at + 8)
	require.True(t, ok)
	require.Equal(t, uint32(0x01020304), v)
	require.Equal(t, uint32(0x01020304), *hostmem.Word32(b.Bytes()[8:]))

	old, ok := m.Add64(at+16, 7)
	require.True(t, ok)
	require.Zero(t, old)
	old, ok = m.CompareSwap64(at+16, 8, 1)
	require.True(t, ok)
	require.Equal(t, uint64(7), old)
	old, ok = m.CompareSwap64(at+16, 7, 100)
	require.True(t, ok)
	require.Equal(t, uint64(7), old)
	require.Equal(t, uint64(100), *hostmem.Word64(b.Bytes()[16:]))
}

func TestProcessMemoryFaults(t *testing.T) {
	m, b := ownProcess(t)
	for _, at := range []uint64{0, 1 << 63, ^uint64(7)} {
		require.Error(t, m.Read(at, make([]byte, 8)))
		require.Error(t, m.Write(at, make([]byte, 8)))
		_, ok := m.Load32(at)
		require.False(t, ok)
		require.False(t, m.Store32(at, 1))
		_, ok = m.Add64(at, 1)
		require.False(t, ok)
		_, ok = m.CompareSwap64(at, 0, 1)
		require.False(t, ok)
		require.False(t, m.Pin(at, 8, false))
	}
	_, ok := m.Load32(b.Addr() + 2)
	require.False(t, ok)
	require.False(t, m.Store32(b.Addr()+1, 1))
	_, ok = m.Add64(b.Addr()+4, 1)
	require.False(t, ok)
	_, err := openMemory(1 << 30)
	require.Error(t, err)
}

func TestPin(t *testing.T) {
	m, b := ownProcess(t)
	page := uint64(hostmem.PageSize())
	require.True(t, m.Pin(b.Addr(), 3*page, true))
	require.True(t, m.Pin(b.Addr()+5, page, true))
	require.NoError(t, unix.Mprotect(b.Bytes()[page:2*page], unix.PROT_READ))
	require.True(t, m.Pin(b.Addr(), 3*page, false))
	require.False(t, m.Pin(b.Addr(), 3*page, true))
	require.True(t, m.Pin(b.Addr(), page, true))
	require.NoError(t, unix.Mprotect(b.Bytes()[page:2*page], unix.PROT_NONE))
	require.False(t, m.Pin(b.Addr(), 2*page, false))
	require.NoError(t, unix.Mprotect(b.Bytes()[page:2*page], unix.PROT_READ|unix.PROT_WRITE))
	gone := &processMemory{pid: 1 << 30}
	require.False(t, gone.Pin(b.Addr(), 1, false))
}

func TestParseMapping(t *testing.T) {
	lo, hi, perms, err := parseMapping("7f0000000000-7f0000001000 rw-p 00000000 00:00 0")
	require.NoError(t, err)
	require.Equal(t, uint64(0x7f0000000000), lo)
	require.Equal(t, uint64(0x7f0000001000), hi)
	require.Equal(t, "rw-p", perms)
	for _, bad := range []string{"", "x", "1-2", "1-2 rw", "g-2 rw-p 0", "1-g rw-p 0"} {
		_, _, _, err = parseMapping(bad)
		require.Error(t, err, bad)
	}
}

// The memory is that of the program that was there, not of the process.
func TestMemoryEnds(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programVar+"=wait")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	m, err := openMemory(cmd.Process.Pid)
	require.NoError(t, err)
	defer m.mem.Close()
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Error(t, m.Read(1<<22, make([]byte, 1)))
}

func TestStrings(t *testing.T) {
	_, b := ownProcess(t)
	page := hostmem.PageSize()
	copy(b.Bytes()[page-3:], "a path")
	at := b.Addr() + uint64(page-3)
	s, ok := readString(os.Getpid(), at, 32)
	require.True(t, ok)
	require.Equal(t, "a path", s)
	_, ok = readString(os.Getpid(), at, 5)
	require.False(t, ok, "longer than the limit")
	_, ok = readString(os.Getpid(), 0, 32)
	require.False(t, ok)
	require.True(t, writeBytes(os.Getpid(), at, []byte("A")))
	require.Equal(t, byte('A'), b.Bytes()[page-3])
	require.False(t, writeBytes(os.Getpid(), 0, []byte("A")))
}

func TestProcessOf(t *testing.T) {
	pid, err := processOf(unix.Gettid())
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
	_, err = processOf(1 << 30)
	require.Error(t, err)
}
