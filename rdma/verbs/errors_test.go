package verbs

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyscallErrorHints(t *testing.T) {
	for _, c := range []struct {
		op     op
		errno  syscall.Errno
		hint   string // part of it, "" for none
		locked bool
	}{
		{op{name: "x", pins: true, bytes: 12345}, syscall.ENOMEM, "12345 bytes have to be locked, the locked-memory limit (RLIMIT_MEMLOCK) is", true},
		{op{name: "x", pins: true}, syscall.EPERM, "memory has to be locked, the locked-memory limit", true},
		{op{name: "x", pins: true}, syscall.EINVAL, "", false},
		{op{name: "x"}, syscall.ENOMEM, "", false},
		{op{name: "x"}, syscall.EPERM, "", false},
		{op{name: "x"}, syscall.EIO, "the device was removed", false},
		{op{name: "x"}, syscall.ENODEV, "the device was removed", false},
		{op{name: "x"}, syscall.EPROTONOSUPPORT, "does not know the command", false},
		{op{name: "x"}, syscall.ENOTTY, "Linux 5.4 or newer", false},
		{op{name: "x"}, syscall.EAGAIN, "being reset", false},
		{op{name: "x"}, syscall.EHOSTUNREACH, "routes and neighbours", false},
		{op{name: "x"}, syscall.ENETUNREACH, "routes and neighbours", false},
		{op{name: "x"}, syscall.ETIMEDOUT, "routes and neighbours", false},
		{op{name: "x"}, syscall.EBUSY, "", false},
	} {
		err := fileError(c.op, c.errno)
		var e *SyscallError
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.Hint, c.hint, c.errno)
		require.Equal(t, c.hint == "", e.Hint == "", c.errno)
		require.Equal(t, c.locked, errors.Is(err, ErrLockedMemory))
		if c.locked {
			require.Contains(t, e.Hint, "CAP_IPC_LOCK")
		}
		require.True(t, strings.HasPrefix(err.Error(), "x: "+c.errno.Error()))
	}
}

func TestSyscallErrorMatches(t *testing.T) {
	for errno, match := range map[syscall.Errno][]error{
		syscall.EIO:             {ErrDeviceRemoved},
		syscall.ENODEV:          {ErrDeviceRemoved},
		syscall.EPROTONOSUPPORT: {errors.ErrUnsupported},
		syscall.ENOTTY:          {errors.ErrUnsupported},
		syscall.EACCES:          {fs.ErrPermission},
		syscall.ENOENT:          {fs.ErrNotExist},
		syscall.EBUSY:           {},
	} {
		err := error(&SyscallError{Call: "x", Errno: errno})
		for _, target := range []error{ErrDeviceRemoved, ErrLockedMemory, errors.ErrUnsupported, fs.ErrPermission, fs.ErrNotExist} {
			want := false
			for _, m := range match {
				want = want || m == target
			}
			require.Equal(t, want, errors.Is(err, target), "%v %v", errno, target)
		}
	}
}

func TestMemlockText(t *testing.T) {
	require.Contains(t, memlockText(65536, true), "is 65536 bytes")
	require.Contains(t, memlockText(^uint64(0), true), "is unlimited")
	require.Contains(t, memlockText(0, false), "is unknown")
}

func TestOpenErrorHints(t *testing.T) {
	for errno, hint := range map[syscall.Errno]string{
		syscall.EACCES: "device cgroup",
		syscall.EPERM:  "device cgroup",
		syscall.ENOENT: "ib_uverbs",
		syscall.ENXIO:  "removed",
		syscall.EIO:    "removed",
		syscall.EMFILE: "",
	} {
		err := openError("/dev/infiniband/uverbs0", errno)
		var e *SyscallError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "open /dev/infiniband/uverbs0", e.Call)
		require.Contains(t, e.Hint, hint)
		require.Equal(t, hint == "", e.Hint == "")
		require.ErrorIs(t, err, errno)
	}
	other := errors.New("other")
	require.ErrorIs(t, openError("x", other), other)
}

// A registration over the limit says how much was asked.
func TestLockedMemoryLimit(t *testing.T) {
	for _, call := range []struct {
		name  string
		call  func(c *Context) error
		asked string
	}{
		{"register memory", func(c *Context) error {
			_, err := c.RegMR(RegMR{Addr: 0x1000, IOVA: 0x1000, Length: 8 << 20})
			return err
		}, "8388608 bytes"},
		{"create completion queue", func(c *Context) error {
			_, err := c.CreateCQ(CreateCQ{Entries: 1, Pinned: 4096})
			return err
		}, "4096 bytes"},
		{"create queue pair", func(c *Context) error { _, err := c.CreateQP(CreateQP{}); return err }, "memory has"},
	} {
		s := newScript(t)
		c := newContext(t, s)
		f := &failingFile{s, syscall.ENOMEM}
		c.file = f
		err := call.call(c)
		require.ErrorIs(t, err, ErrLockedMemory)
		require.ErrorContains(t, err, call.name)
		require.ErrorContains(t, err, call.asked)
	}
}

// A failingFile refuses everything.
type failingFile struct {
	*script
	errno syscall.Errno
}

func (f *failingFile) Ioctl([]byte) error { return f.errno }
