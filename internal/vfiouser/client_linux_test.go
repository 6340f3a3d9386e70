package vfiouser

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// client is the monitor's side of the protocol.
type client struct {
	t    *testing.T
	conn *net.UnixConn
	next uint16
}

// recorder is a device that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	config [256]byte
	bar    [4096]byte
	writes int
	resets int
}

func (r *recorder) region(i int) []byte {
	if i == ConfigSpace {
		return r.config[:]
	}
	return r.bar[:]
}

func (r *recorder) Read(region int, offset uint64, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(p, r.region(region)[offset:][:len(p)])
}

func (r *recorder) Write(region int, offset uint64, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(r.region(region)[offset:][:len(p)], p)
	r.writes++
}

func (r *recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resets++
}

func exampleConfig() Config {
	c := Config{Vectors: 4}
	c.Regions[BAR0], c.Regions[ConfigSpace] = 4096, 256
	return c
}

// socketpair is two connected sockets.
func socketpair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	conn := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return c.(*net.UnixConn)
	}
	return conn(fds[0]), conn(fds[1])
}

// start serves a recorder to a client. wait hangs up and returns what Serve does.
func start(t *testing.T) (s *Server, c *client, r *recorder, wait func() error) {
	t.Helper()
	here, there := socketpair(t)
	s, err := New(there, exampleConfig())
	require.NoError(t, err)
	r = &recorder{}
	done := make(chan error, 1)
	go func() { done <- s.Serve(r) }()
	var once sync.Once
	wait = func() (err error) {
		once.Do(func() {
			_ = here.Close()
			err = <-done
		})
		return err
	}
	t.Cleanup(func() { _ = wait() })
	require.NoError(t, here.SetDeadline(time.Now().Add(time.Minute)))
	return s, &client{t: t, conn: here}, r, wait
}

// agreed is start, with a version agreed on.
func agreed(t *testing.T) (s *Server, c *client, r *recorder, wait func() error) {
	t.Helper()
	s, c, r, wait = start(t)
	_, errno := c.call(cmdVersion, version(0, 1))
	require.Zero(t, errno)
	return s, c, r, wait
}

func version(major, minor uint16) []byte {
	b := le.AppendUint16(le.AppendUint16(nil, major), minor)
	return append(b, "{}\x00"...)
}

func (c *client) send(command uint16, flags uint32, body []byte, fds ...int) {
	c.t.Helper()
	c.next++
	h := header{id: c.next, command: command, flags: flags, size: uint32(headerSize + len(body))}
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := c.conn.WriteMsgUnix(append(h.append(nil), body...), control, nil)
	require.NoError(c.t, err)
}

// call sends a command and returns its reply.
func (c *client) call(command uint16, body []byte, fds ...int) ([]byte, syscall.Errno) {
	c.t.Helper()
	c.send(command, 0, body, fds...)
	var head [headerSize]byte
	_, err := io.ReadFull(c.conn, head[:])
	require.NoError(c.t, err)
	require.Equal(c.t, c.next, le.Uint16(head[:]))
	require.Equal(c.t, command, le.Uint16(head[2:]))
	flags := le.Uint32(head[8:])
	require.EqualValues(c.t, flagReply, flags&flagTypeMask)
	reply := make([]byte, le.Uint32(head[4:])-headerSize)
	_, err = io.ReadFull(c.conn, reply)
	require.NoError(c.t, err)
	errno := syscall.Errno(le.Uint32(head[12:]))
	require.Equal(c.t, errno != 0, flags&flagError != 0)
	return reply, errno
}

// words is a body of 32-bit words.
func words(v ...uint32) (b []byte) {
	for _, w := range v {
		b = le.AppendUint32(b, w)
	}
	return b
}

func mapBody(flags uint32, offset, address, size uint64) []byte {
	b := words(dmaMapSize, flags)
	for _, v := range []uint64{offset, address, size} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func unmapBody(flags uint32, address, size uint64) []byte {
	b := le.AppendUint64(words(dmaUnmapSize, flags), address)
	return le.AppendUint64(b, size)
}

func accessBody(region uint32, offset uint64, count uint32, data ...byte) []byte {
	return append(append(le.AppendUint64(nil, offset), words(region, count)...), data...)
}

// guestRAM is memory that a client shares.
func guestRAM(t testing.TB, size int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "guest")
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, f.Truncate(size))
	return f
}
