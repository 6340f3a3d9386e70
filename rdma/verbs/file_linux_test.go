package verbs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// zeroDevice is a Device whose node is that of /dev/zero: a character device
// that anybody may open and map, and that knows no ioctl.
func zeroDevice(t *testing.T, links ...string) Device {
	t.Helper()
	root := t.TempDir()
	for i := 0; i < len(links); i += 2 {
		path := filepath.Join(root, "dev", links[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Symlink(links[i+1], path))
	}
	return Device{Name: "mlx5_0", UverbsName: "uverbs0", Major: 1, Minor: 5, root: root}
}

func TestOpen(t *testing.T) {
	for name, d := range map[string]Device{
		"usual place":        zeroDevice(t, "infiniband/uverbs0", "/dev/zero"),
		"elsewhere":          zeroDevice(t, "char/1:5", "/dev/zero"),
		"stale usual place":  zeroDevice(t, "infiniband/uverbs0", "/dev/null", "char/1:5", "/dev/zero"),
		"no device in place": zeroDevice(t, "infiniband/uverbs0", "/", "char/1:5", "/dev/zero"),
	} {
		f, err := d.Open()
		require.NoError(t, err, name)
		require.NoError(t, f.Close())
	}
}

func TestOpenErrors(t *testing.T) {
	_, err := zeroDevice(t).Open()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "ib_uverbs")

	_, err = zeroDevice(t, "char/1:5", "/dev/null").Open()
	require.ErrorContains(t, err, "not the character device", "the more telling of two errors")

	_, err = zeroDevice(t, "infiniband/uverbs0", "/dev/null").Open()
	require.ErrorContains(t, err, "not the character device 1:5 of mlx5_0")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = zeroDevice(t, "infiniband/uverbs0", file).Open()
	require.ErrorContains(t, err, "not the character device")
}

func openZero(t *testing.T) *node {
	t.Helper()
	f, err := zeroDevice(t, "infiniband/uverbs0", "/dev/zero").Open()
	require.NoError(t, err)
	return f.(*node)
}

func TestNodeIoctl(t *testing.T) {
	n := openZero(t)
	mem, err := hostmem.Alloc(24)
	require.NoError(t, err)
	defer mem.Free()
	require.Equal(t, syscall.ENOTTY, n.Ioctl(mem.Bytes()))

	// The whole path, on a kernel that has no such ioctl.
	_, err = NewContext(n, DriverMLX5, nil, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "Linux 5.4")

	require.NoError(t, n.Close())
	require.Equal(t, syscall.EBADF, n.Ioctl(mem.Bytes()))
	require.ErrorIs(t, n.Close(), os.ErrClosed)
}

func TestNodeMap(t *testing.T) {
	n := openZero(t)
	p, err := n.Map(0, os.Getpagesize())
	require.NoError(t, err)
	require.Len(t, p.Mem, os.Getpagesize())
	require.Nil(t, p.Wake, "hardware needs no waking")
	p.Mem[0] = 1

	_, err = n.Map(1, os.Getpagesize())
	require.Equal(t, syscall.EINVAL, err, "offset is not a page's")

	require.ErrorContains(t, n.Close(), "1 pages are still mapped")
	_, err = n.Map(0, os.Getpagesize())
	require.Equal(t, syscall.EBADF, err)
	require.NoError(t, p.Unmap())

	n = openZero(t)
	p, err = n.Map(0, os.Getpagesize())
	require.NoError(t, err)
	require.NoError(t, p.Unmap())
	require.NoError(t, n.Close(), "unmapped pages are not counted")
}

// eventPipe returns a descriptor that delivers records as the kernel's event
// files do, and its writing end.
func eventPipe(t *testing.T) (r int, w *os.File) {
	t.Helper()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_DIRECT))
	w = os.NewFile(uintptr(p[1]), "events")
	t.Cleanup(func() { w.Close() })
	return p[0], w
}

func TestNodeEvents(t *testing.T) {
	n := openZero(t)
	defer n.Close()
	fd, w := eventPipe(t)
	ev, err := n.Events(fd)
	require.NoError(t, err)

	_, err = w.Write(le(uint64(7)))
	require.NoError(t, err)
	_, err = w.Write(le(uint64(8)))
	require.NoError(t, err)
	buf := make([]byte, 64)
	k, err := ev.Read(buf)
	require.NoError(t, err)
	handle, err := ParseCompEvent(buf[:k])
	require.NoError(t, err)
	require.Equal(t, uint64(7), handle)
	_, err = ev.Read(buf)
	require.NoError(t, err)

	require.NoError(t, ev.SetReadDeadline(time.Now()))
	_, err = ev.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	require.NoError(t, ev.SetReadDeadline(time.Time{}))
	read := make(chan error)
	go func() { _, err := ev.Read(make([]byte, 8)); read <- err }()
	require.NoError(t, ev.Close())
	require.ErrorIs(t, <-read, os.ErrClosed, "Close ends a waiting Read")
}

func TestNodeEventsRefused(t *testing.T) {
	n := openZero(t)
	defer n.Close()
	_, err := n.Events(-1)
	require.ErrorIs(t, err, syscall.EBADF)

	// A regular file cannot be waited for; it is closed all the same.
	fd, err := unix.Open(filepath.Join(t.TempDir(), "file"), unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	_, err = n.Events(fd)
	require.ErrorIs(t, err, os.ErrNoDeadline)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.Equal(t, syscall.EBADF, err)
}

// What the poller gives up ends with the kernel's own error. A connection to
// fuse that nobody mounted is such a descriptor: it polls as an error and as
// nothing else, as the events of a device that is gone do.
func TestNodeEventsOfADeviceThatIsGone(t *testing.T) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("/dev/fuse:", err)
	}
	n := openZero(t)
	defer n.Close()
	ev, err := n.Events(fd)
	require.NoError(t, err)
	gaveUp := func() bool {
		_, err := ev.(*events).File.Read(make([]byte, 1<<16))
		return err != nil && !errors.Is(err, syscall.EPERM)
	}
	require.Eventually(t, gaveUp, 10*time.Second, time.Millisecond)
	_, err = ev.Read(make([]byte, 1<<16))
	require.ErrorIs(t, err, syscall.EPERM)
	require.NoError(t, ev.Close())
	_, err = ev.Read(make([]byte, 8))
	require.ErrorIs(t, err, os.ErrClosed)
}

// The last records are read before the end.
func TestRestOfEvents(t *testing.T) {
	n := openZero(t)
	defer n.Close()
	fd, w := eventPipe(t)
	ev, err := n.Events(fd)
	require.NoError(t, err)
	_, err = w.Write(le(uint64(7)))
	require.NoError(t, err)
	buf := make([]byte, 16)
	k, err := ev.(*events).rest(buf)
	require.NoError(t, err)
	require.Equal(t, 8, k)
	k, err = ev.(*events).rest(buf)
	require.ErrorIs(t, err, syscall.EIO)
	require.Zero(t, k)
	require.NoError(t, ev.Close())
	_, err = ev.(*events).rest(buf)
	require.ErrorIs(t, err, os.ErrClosed)
}
