package verbs

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
)

func TestNewContext(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	require.Equal(t, 3, c.NumCompVectors())
	require.Equal(t, DriverMLX5, c.Driver())
	require.Equal(t, []int{41}, s.events)
	ev := c.Async().(*fakeEvents)

	require.NoError(t, c.Close())
	require.Equal(t, 1, ev.closed)
	require.Equal(t, 1, s.closed)
	require.ErrorIs(t, c.Close(), os.ErrClosed)
	require.Equal(t, 1, s.closed)
	n, _ := hostmem.Live()
	require.Zero(t, n, "scratch memory is freed")
}

func TestNewContextWithoutDriverData(t *testing.T) {
	s := newScript(t)
	s.expect(
		step{want: "GET_CONTEXT driver 14\n0x0 out 4\n0x1 out 8"},
		step{want: "ASYNC_EVENT_ALLOC driver 14\n0x0 new 0", fresh: map[uint16]uint64{0: 5}},
	)
	c, err := NewContext(s, DriverRXE, nil, nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// Linux 5.0 to 5.5 has no native GET_CONTEXT; there the older one also makes
// the asynchronous event descriptor.
func TestNewContextFallback(t *testing.T) {
	s := newScript(t)
	old := step{
		want: `
INVOKE_WRITE driver 1
0x2 in 0000000000000000
0x0 in 0000000000000000
0x1 out 8
0x1000 in 0102030405060708090a
0x1001 out 6`,
		reply: map[uint16][]byte{1: le(uint32(17), uint32(2)), 0x1001: []byte("driver")},
	}
	native := getContext[0]
	native.err = syscall.EPROTONOSUPPORT
	s.expect(native, old)
	out := make([]byte, 6)
	c, err := NewContext(s, DriverMLX5, driverRequest, out)
	require.NoError(t, err)
	require.Equal(t, "driver", string(out))
	require.Equal(t, 2, c.NumCompVectors())
	require.Equal(t, []int{17}, s.events)

	// Such a kernel refuses access bits that it does not know.
	s.expect(step{want: `
INVOKE_WRITE driver 1
0x2 in 0900000000000000
0x0 in 00000000000000000010000000000000002000000000000000100000000000000700000003000000
0x1 out 12`})
	_, err = c.RegMR(RegMR{PD: 7, Addr: 0x1000, Length: 0x2000, IOVA: 0x1000,
		Access: AccessLocalWrite | AccessRemoteWrite | AccessRelaxedOrdering})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestNewContextErrors(t *testing.T) {
	native := func(err error) step { s := getContext[0]; s.err = err; return s }
	t.Run("refused", func(t *testing.T) {
		// Anything but "unknown" must not lead to the older command: it is
		// broken on the kernels that have the new one.
		for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EAGAIN, syscall.ENOTTY, syscall.EIO, syscall.EBADF} {
			s := newScript(t)
			s.expect(native(errno))
			c, err := NewContext(s, DriverMLX5, driverRequest, make([]byte, 6))
			require.Nil(t, c)
			require.ErrorIs(t, err, errno)
			require.ErrorContains(t, err, "get context")
			require.Zero(t, s.closed, "the file stays the caller's")
			require.Empty(t, s.events)
		}
	})
	t.Run("both unknown", func(t *testing.T) {
		s := newScript(t)
		s.expect(native(syscall.EPROTONOSUPPORT), step{
			want: "INVOKE_WRITE driver 1\n0x2 in 0000000000000000\n0x0 in 0000000000000000\n0x1 out 8\n0x1000 in 0102030405060708090a\n0x1001 out 6",
			err:  syscall.EPROTONOSUPPORT,
		})
		_, err := NewContext(s, DriverMLX5, driverRequest, make([]byte, 6))
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
	t.Run("no async events", func(t *testing.T) {
		s := newScript(t)
		s.expect(getContext[0], step{want: "ASYNC_EVENT_ALLOC driver 1\n0x0 new 0", err: syscall.EMFILE})
		_, err := NewContext(s, DriverMLX5, driverRequest, make([]byte, 6))
		require.ErrorIs(t, err, syscall.EMFILE)
		require.ErrorContains(t, err, "allocate async events")
	})
	t.Run("descriptor refused", func(t *testing.T) {
		s := newScript(t)
		s.eventsErr = syscall.EBADF
		s.expect(getContext...)
		_, err := NewContext(s, DriverMLX5, driverRequest, make([]byte, 6))
		require.ErrorIs(t, err, syscall.EBADF)
		require.ErrorContains(t, err, "open async events")
	})
	n, _ := hostmem.Live()
	require.Zero(t, n, "scratch memory is freed")
}

func TestCloseReportsErrors(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	s.closeErr = errors.New("pages are still mapped")
	ev := c.Async().(*fakeEvents)
	ev.closeErr = errors.New("events")
	err := c.Close()
	require.ErrorIs(t, err, s.closeErr)
	require.ErrorIs(t, err, ev.closeErr)
	n, _ := hostmem.Live()
	require.Zero(t, n)
}

func TestContextMap(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	p, err := c.Map(0x1000, 4096)
	require.NoError(t, err)
	require.Len(t, p.Mem, 4096)
	require.Equal(t, []string{"0x1000+0x1000"}, s.maps)
	require.NoError(t, p.Unmap())
	require.NoError(t, p.Unmap())
	require.Zero(t, s.pages, "unmapped once")

	s.mapErr = syscall.EPERM
	_, err = c.Map(0, 4096)
	require.ErrorIs(t, err, syscall.EPERM)
	require.NotErrorIs(t, err, ErrLockedMemory)
	require.NoError(t, c.Close())
	_, err = c.Map(0, 4096)
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestPageUnmapError(t *testing.T) {
	p := NewPage(nil, nil, func() error { return syscall.EINVAL })
	require.ErrorIs(t, p.Unmap(), syscall.EINVAL)
	require.ErrorIs(t, p.Unmap(), syscall.EINVAL, "the first result is kept")
	require.NoError(t, NewPage(nil, nil, nil).Unmap())
}

// blockingFile holds each command until it is released.
type blockingFile struct {
	*script
	entered, release chan struct{}
}

func (f *blockingFile) Ioctl(cmd []byte) error {
	f.entered <- struct{}{}
	<-f.release
	return nil
}

// Commands run at the same time, each in its own memory, and Close waits for
// them before that memory is freed.
func TestConcurrentCommandsAndClose(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	f := &blockingFile{s, make(chan struct{}), make(chan struct{})}
	c.file = f

	const n = 4
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() { errs <- c.DeallocPD(1) })
	}
	for range n {
		<-f.entered // all are in the kernel at once
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case <-closed:
		t.Fatal("closed under a running command")
	default:
	}
	close(f.release)
	wg.Wait()
	for range n {
		require.NoError(t, <-errs)
	}
	require.NoError(t, <-closed)
	m, _ := hostmem.Live()
	require.Zero(t, m)
}

func TestScratchIsReused(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	for range 3 {
		s.expect(step{want: "INVOKE_WRITE driver 1\n0x2 in 0400000000000000\n0x0 in 01000000"})
		require.NoError(t, c.DeallocPD(1))
	}
	n, _ := hostmem.Live()
	require.Equal(t, 1, n)
}

func TestInvokeTooLong(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	err := c.Invoke("long call", 0x1008, 0x1000, AttrIn(1, make([]byte, 1<<16)))
	require.ErrorContains(t, err, "long call: command does not fit")
	n, _ := hostmem.Live()
	require.LessOrEqual(t, n, 1, "unusually large memory is not kept")
}

func TestOutOfMemory(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	held, err := c.scratch.get(1) // the one that the context has
	require.NoError(t, err)
	defer c.scratch.put(held)
	noMemory := errors.New("no memory")
	alloc = func(int) (*hostmem.Memory, error) { return nil, noMemory }
	defer func() { alloc = hostmem.Alloc }()

	err = c.DeallocPD(1)
	require.ErrorIs(t, err, noMemory)
	require.ErrorContains(t, err, "free protection domain")
	_, err = ProbeDriver(s, DriverMLX5)
	require.ErrorIs(t, err, noMemory)
	_, err = NewContext(s, DriverMLX5, nil, nil)
	require.ErrorIs(t, err, noMemory)
}
