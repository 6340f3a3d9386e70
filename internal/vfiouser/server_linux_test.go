package vfiouser

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestVersion(t *testing.T) {
	_, c, _, wait := start(t)
	reply, errno := c.call(cmdVersion, version(0, 7))
	require.Zero(t, errno)
	require.Equal(t, []byte{0, 0, 1, 0}, reply[:4])
	text, end := strings.CutSuffix(string(reply[4:]), "\x00")
	require.True(t, end)
	var v capabilities
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	require.Equal(t, maxDescriptors, v.Capabilities.MaxDescriptors)
	require.Equal(t, maxTransfer, v.Capabilities.MaxTransfer)
	require.NoError(t, wait())
}

func TestVersionOfAnotherProtocol(t *testing.T) {
	_, c, _, _ := start(t)
	_, errno := c.call(cmdVersion, version(1, 0))
	require.Equal(t, syscall.EINVAL, errno)
}

func TestDescription(t *testing.T) {
	_, c, _, _ := agreed(t)
	reply, errno := c.call(cmdGetInfo, make([]byte, deviceInfoSize))
	require.Zero(t, errno)
	require.Equal(t, words(16, 3, 9, 5), reply)

	reply, errno = c.call(cmdRegionInfo, append(words(32, 0, ConfigSpace), make([]byte, 20)...))
	require.Zero(t, errno)
	require.Equal(t, append(words(32, 3, ConfigSpace, 0, 256, 0), make([]byte, 8)...), reply)
	reply, errno = c.call(cmdRegionInfo, append(words(32, 0, BAR2), make([]byte, 20)...))
	require.Zero(t, errno)
	require.Equal(t, append(words(32, 0, BAR2), make([]byte, 20)...), reply)
	_, errno = c.call(cmdRegionInfo, append(words(32, 0, NumRegions), make([]byte, 20)...))
	require.Equal(t, syscall.EINVAL, errno)

	reply, errno = c.call(cmdIRQInfo, words(16, 0, irqMSIX, 0))
	require.Zero(t, errno)
	require.Equal(t, words(16, irqEventfd|irqNoResize, irqMSIX, 4), reply)
	reply, errno = c.call(cmdIRQInfo, words(16, 0, 0, 0))
	require.Zero(t, errno)
	require.Equal(t, words(16, 0, 0, 0), reply)
	_, errno = c.call(cmdIRQInfo, words(16, 0, numIRQs, 0))
	require.Equal(t, syscall.EINVAL, errno)
}

func TestRegions(t *testing.T) {
	_, c, r, _ := agreed(t)
	reply, errno := c.call(cmdRegionWrite, accessBody(BAR0, 8, 4, 1, 2, 3, 4))
	require.Zero(t, errno)
	require.Equal(t, accessBody(BAR0, 8, 4), reply)
	reply, errno = c.call(cmdRegionRead, accessBody(BAR0, 6, 8))
	require.Zero(t, errno)
	require.Equal(t, accessBody(BAR0, 6, 8, 0, 0, 1, 2, 3, 4, 0, 0), reply)

	for name, body := range map[string][]byte{
		"behind the end": accessBody(BAR0, 4093, 4),
		"wraps around":   accessBody(BAR0, 1<<64-4, 8),
		"no such region": accessBody(NumRegions, 0, 4),
		"empty region":   accessBody(BAR2, 0, 4),
		"huge":           accessBody(BAR0, 0, 1<<31),
		"short":          accessBody(BAR0, 0, 4)[:12],
	} {
		_, errno = c.call(cmdRegionRead, body)
		require.Equal(t, syscall.EINVAL, errno, name)
	}
	_, errno = c.call(cmdRegionWrite, accessBody(BAR0, 0, 8, 1, 2, 3, 4))
	require.Equal(t, syscall.EINVAL, errno, "less data than said")
	require.Equal(t, 1, r.writes)

	_, errno = c.call(cmdReset, nil)
	require.Zero(t, errno)
	require.Equal(t, 1, r.resets)
}

// A posted write has no answer: the next one is the read's.
func TestPostedWrite(t *testing.T) {
	_, c, _, _ := agreed(t)
	c.send(cmdRegionWrite, flagNoReply, accessBody(BAR0, 0, 2, 7, 8))
	reply, errno := c.call(cmdRegionRead, accessBody(BAR0, 0, 2))
	require.Zero(t, errno)
	require.Equal(t, []byte{7, 8}, reply[accessSize:])
}

func TestUnknownCommand(t *testing.T) {
	_, c, _, _ := agreed(t)
	_, errno := c.call(16, make([]byte, 64))
	require.Equal(t, syscall.EOPNOTSUPP, errno)
}

func TestProtocolViolations(t *testing.T) {
	head := func(command uint16, size, flags uint32) []byte {
		return header{id: 1, command: command, size: size, flags: flags}.append(nil)
	}
	for name, bytes := range map[string][]byte{
		"command before version": head(cmdReset, headerSize, 0),
		"size below the header":  head(cmdVersion, 15, 0),
		"huge":                   head(cmdVersion, 1<<31, 0),
		"a reply":                head(cmdVersion, headerSize, flagReply),
		"cut in the header":      head(cmdVersion, headerSize, 0)[:7],
		"cut in the body":        head(cmdVersion, 64, 0),
	} {
		_, c, _, wait := start(t)
		_, err := c.conn.Write(bytes)
		require.NoError(t, err)
		require.NoError(t, c.conn.CloseWrite())
		// The server hangs up by itself; what it says comes when the test does.
		_, _ = c.conn.Read(make([]byte, 1))
		require.ErrorIs(t, wait(), ErrProtocol, name)
	}
	_, c, _, wait := agreed(t)
	c.send(cmdVersion, 0, version(0, 1))
	_, _ = c.conn.Read(make([]byte, 1))
	require.ErrorIs(t, wait(), ErrProtocol, "second version")
}

func TestTooManyDescriptors(t *testing.T) {
	_, c, _, wait := agreed(t)
	fds := make([]int, maxDescriptors+8)
	for i := range fds {
		fds[i] = int(os.Stdin.Fd())
	}
	c.send(cmdSetIRQs, 0, words(20, irqDataEventfd|irqActionTrigger, irqMSIX, 0, 4), fds...)
	_, _ = c.conn.Read(make([]byte, 1))
	require.ErrorIs(t, wait(), ErrProtocol)
}

func eventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// raised is how often an eventfd was written to.
func raised(t *testing.T, fd int) byte {
	t.Helper()
	var b [8]byte
	_, err := unix.Read(fd, b[:])
	if err == syscall.EAGAIN {
		return 0
	}
	require.NoError(t, err)
	return b[0]
}

func TestInterrupts(t *testing.T) {
	s, c, _, _ := agreed(t)
	a, b := eventfd(t), eventfd(t)
	irqs := func(flags, start, count uint32, data []byte, fds ...int) syscall.Errno {
		_, errno := c.call(cmdSetIRQs, append(words(20, flags|irqActionTrigger, irqMSIX, start, count), data...), fds...)
		return errno
	}
	s.Interrupts().Raise(1)
	require.Zero(t, irqs(irqDataEventfd, 1, 2, nil, a, b))
	require.Zero(t, raised(t, a), "nobody listened when it was raised")
	s.Interrupts().Raise(1)
	s.Interrupts().Raise(2)
	s.Interrupts().Raise(2)
	s.Interrupts().Raise(3)
	s.Interrupts().Raise(-1)
	s.Interrupts().Raise(4)
	require.Equal(t, byte(1), raised(t, a))
	require.Equal(t, byte(2), raised(t, b))

	require.Zero(t, irqs(irqDataNone, 1, 1, nil))
	require.Zero(t, irqs(irqDataBool, 1, 2, []byte{0, 1}))
	require.Equal(t, byte(1), raised(t, a))
	require.Equal(t, byte(1), raised(t, b))

	for name, errno := range map[string]syscall.Errno{
		"beyond the last":      irqs(irqDataNone, 4, 1, nil),
		"wraps around":         irqs(irqDataNone, 1<<32-1, 2, nil),
		"other number of fds":  irqs(irqDataEventfd, 0, 2, nil, a),
		"fds without eventfd":  irqs(irqDataNone, 0, 1, nil, a),
		"data of another size": irqs(irqDataBool, 0, 2, []byte{1}),
		"no kind of data":      irqs(0, 0, 1, nil),
		"two kinds of data":    irqs(irqDataNone|irqDataBool, 0, 1, nil),
		"masking":              irqs(irqDataNone|1<<3, 0, 1, nil),
	} {
		require.Equal(t, syscall.EINVAL, errno, name)
	}
	_, errno := c.call(cmdSetIRQs, words(20, irqDataNone|irqActionTrigger, 0, 0, 0))
	require.Equal(t, syscall.EINVAL, errno, "INTx")
	require.Zero(t, raised(t, a))

	require.Zero(t, irqs(irqDataEventfd, 1, 1, nil))
	s.Interrupts().Raise(1)
	require.Zero(t, raised(t, a), "taken away")
	require.Zero(t, irqs(irqDataNone, 0, 0, nil))
	s.Interrupts().Raise(2)
	require.Zero(t, raised(t, b), "all taken away")
}

// A full eventfd does not block the device.
func TestFullEventfd(t *testing.T) {
	s, c, _, _ := agreed(t)
	fd := eventfd(t)
	_, errno := c.call(cmdSetIRQs, words(20, irqDataEventfd|irqActionTrigger, irqMSIX, 0, 1), fd)
	require.Zero(t, errno)
	_, err := unix.Write(fd, le.AppendUint64(nil, 1<<64-2))
	require.NoError(t, err)
	s.Interrupts().Raise(0)
	require.NoError(t, unix.SetNonblock(fd, false))
	s.Interrupts().Raise(0)
}

// Descriptors are closed when the client goes.
func TestDescriptorsEnd(t *testing.T) {
	s, c, _, wait := agreed(t)
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	defer func() { _ = unix.Close(p[0]) }()
	_, errno := c.call(cmdSetIRQs, words(20, irqDataEventfd|irqActionTrigger, irqMSIX, 0, 1), p[1])
	require.Zero(t, errno)
	_, errno = c.call(16, nil, p[1]) // with a command that is not carried out
	require.Equal(t, syscall.EOPNOTSUPP, errno)
	require.NoError(t, unix.Close(p[1]))
	require.NoError(t, wait())
	n, err := unix.Read(p[0], make([]byte, 1))
	require.NoError(t, err)
	require.Zero(t, n, "the pipe has no writer any more")
	s.Interrupts().Raise(0)
}

func TestConfigRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no configuration space": func(c *Config) { c.Regions[ConfigSpace] = 0 },
		"vectors":                func(c *Config) { c.Vectors = MaxVectors + 1 },
	} {
		cfg := exampleConfig()
		change(&cfg)
		_, err := New(nil, cfg)
		require.Error(t, err, name)
	}
}
