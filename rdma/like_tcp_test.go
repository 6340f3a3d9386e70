package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stack is what a test does the same with over TCP and over RDMA.
type stack struct {
	t      *testing.T
	listen func(address string) (net.Listener, error)
	dial   func(ctx context.Context, timeout time.Duration, address string) (net.Conn, error)

	calls []string // each call with what class its error is of
}

// tell records a call and its error.
func (s *stack) tell(call string, err error) { s.calls = append(s.calls, call+": "+errorClass(err)) }

// endpoint is what the tests use of *net.TCPConn and *conn.Conn.
type endpoint interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
	SetLinger(int) error
}

// pair is both ends of a connection.
func (s *stack) pair() (near, far endpoint) {
	ln, err := s.listen("127.0.0.1:0")
	require.NoError(s.t, err)
	defer ln.Close()
	a, err := s.dial(s.t.Context(), 0, ln.Addr().String())
	require.NoError(s.t, err)
	b, err := ln.Accept()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { a.Close(); b.Close() })
	return a.(endpoint), b.(endpoint)
}

// errorClass is all that a program can tell of an error without reading its text.
func errorClass(err error) string {
	if err == nil || err == io.EOF {
		return fmt.Sprint(err)
	}
	var says []string
	say := func(format string, a ...any) { says = append(says, fmt.Sprintf(format, a...)) }
	if op, ok := err.(*net.OpError); ok {
		say("OpError %s on %s", op.Op, strings.Replace(op.Net, "tcp", "rdma", 1))
		say("source %t addr %t", op.Source != nil, op.Addr != nil)
	} else {
		say("%T", err)
	}
	if ne, ok := err.(net.Error); ok {
		say("timeout %t", ne.Timeout())
	}
	for _, is := range []error{net.ErrClosed, os.ErrDeadlineExceeded, io.EOF, context.Canceled, context.DeadlineExceeded,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED, syscall.EADDRINUSE} {
		if errors.Is(err, is) {
			say("is %q", is)
		}
	}
	return strings.Join(says, ", ")
}

// until repeats a call that may succeed for a while, as the other side's end travels, and
// returns the error it comes to.
func (s *stack) until(call func() error) (err error) {
	eventually(s.t, func() bool { err = call(); return err != nil }, "no error comes")
	return err
}

func read(c net.Conn) error      { _, err := c.Read(make([]byte, 1)); return err }
func write(c net.Conn) error     { _, err := c.Write([]byte("x")); return err }
func writeMuch(c net.Conn) error { _, err := io.Copy(c, unevenly([32]byte{}, 1<<40)); return err }

// likeTCP are the sequences, by what happens first.
var likeTCP = map[string]func(s *stack){
	"closed": func(s *stack) {
		a, _ := s.pair()
		s.tell("close", a.Close())
		s.tell("read", read(a))
		s.tell("write", write(a))
		s.tell("deadline", a.SetDeadline(time.Now()))
		s.tell("read nothing", func() error { _, err := a.Read(nil); return err }())
		s.tell("write nothing", func() error { _, err := a.Write(nil); return err }())
		s.tell("close write", a.CloseWrite())
		s.tell("close read", a.CloseRead())
		s.tell("linger", a.SetLinger(0))
		s.tell("close", a.Close())
	},
	"nothing to read or write": func(s *stack) {
		a, b := s.pair()
		s.tell("write nothing", func() error { _, err := a.Write(nil); return err }())
		s.tell("write", write(a))
		s.tell("read nothing", func() error { _, err := b.Read(nil); return err }())
		s.tell("read", read(b))
	},
	"closed under a read": func(s *stack) {
		a, _ := s.pair()
		ended := make(chan error, 1)
		go func() { ended <- read(a) }()
		s.tell("close", a.Close())
		s.tell("read", <-ended)
	},
	"closed under a write": func(s *stack) {
		a, b := s.pair()
		ended := make(chan error, 1)
		go func() { ended <- writeMuch(a) }()
		s.tell("peer's read", read(b))
		s.tell("close", a.Close())
		s.tell("write", <-ended)
	},
	"peer closed": func(s *stack) {
		a, b := s.pair()
		s.tell("peer's write", write(b))
		s.tell("peer's close", b.Close())
		s.tell("read what was there", read(a))
		s.tell("read", read(a))
		s.tell("read again", read(a))
		s.tell("write at last", s.until(func() error { return write(a) }))
		s.tell("write again", write(a))
		s.tell("close", a.Close())
	},
	"peer closed with bytes unread": func(s *stack) {
		a, b := s.pair()
		s.tell("write", write(a))
		s.tell("write", write(a))
		s.tell("peer's read", read(b))
		s.tell("peer's close", b.Close())
		s.tell("write much", writeMuch(a))
		s.tell("read", read(a))
	},
	"peer reset": func(s *stack) {
		a, b := s.pair()
		s.tell("peer's linger", b.SetLinger(0))
		s.tell("peer's close", b.Close())
		s.tell("read", read(a))
		s.tell("close", a.Close())
	},
	"peer reset under a write": func(s *stack) {
		a, b := s.pair()
		ended := make(chan error, 1)
		go func() { ended <- writeMuch(a) }()
		s.tell("peer's read", read(b))
		s.tell("peer's linger", b.SetLinger(0))
		s.tell("peer's close", b.Close())
		s.tell("write", <-ended)
	},
	"closed for writing": func(s *stack) {
		a, b := s.pair()
		s.tell("close write", a.CloseWrite())
		s.tell("write", write(a))
		s.tell("close write again", a.CloseWrite())
		s.tell("peer's read", read(b))
		s.tell("peer's write", write(b))
		s.tell("read", read(a))
		s.tell("close", a.Close())
	},
	"closed for reading": func(s *stack) {
		a, b := s.pair()
		s.tell("close read", a.CloseRead())
		s.tell("read", read(a))
		s.tell("peer's write", write(b))
		s.tell("write", write(a))
		s.tell("peer's read", read(b))
	},
	"deadline": func(s *stack) {
		a, b := s.pair()
		s.tell("deadline", a.SetDeadline(time.Unix(1, 0)))
		s.tell("read", read(a))
		s.tell("write", write(a))
		s.tell("read nothing", func() error { _, err := a.Read(nil); return err }())
		s.tell("read deadline", a.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		s.tell("read", read(a))
		s.tell("write deadline", a.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
		s.tell("write much", writeMuch(a))
		s.tell("no deadline", a.SetDeadline(time.Time{}))
		s.tell("peer's write", write(b))
		s.tell("read", read(a))
	},
	"deadline, and bytes to read": func(s *stack) {
		a, b := s.pair()
		s.tell("peer's write", write(b))
		s.tell("deadline", a.SetDeadline(time.Unix(1, 0)))
		s.tell("read", read(a))
		s.tell("no deadline", a.SetDeadline(time.Time{}))
		s.tell("read", read(a))
	},
	"nobody listens": func(s *stack) {
		ln, err := s.listen("127.0.0.1:0")
		require.NoError(s.t, err)
		s.tell("close", ln.Close())
		_, err = s.dial(s.t.Context(), 0, ln.Addr().String())
		s.tell("dial", err)
	},
	"no time to dial": func(s *stack) {
		ln, err := s.listen("127.0.0.1:0")
		require.NoError(s.t, err)
		defer ln.Close()
		_, err = s.dial(s.t.Context(), time.Nanosecond, ln.Addr().String())
		s.tell("dial", err)
		ctx, cancel := context.WithCancel(s.t.Context())
		cancel()
		_, err = s.dial(ctx, 0, ln.Addr().String())
		s.tell("dial with a canceled context", err)
	},
	"bad addresses": func(s *stack) {
		for _, address := range []string{"127.0.0.1", "127.0.0.1:99999", "127.0.0.1:no-such-service"} {
			_, err := s.dial(s.t.Context(), 0, address)
			s.tell("dial", err)
			_, err = s.listen(address)
			s.tell("listen", err)
		}
	},
	"listener": func(s *stack) {
		ln, err := s.listen("127.0.0.1:0")
		require.NoError(s.t, err)
		_, err = s.listen(ln.Addr().String())
		s.tell("listen at the same address", err)
		a, err := s.dial(s.t.Context(), 0, ln.Addr().String())
		require.NoError(s.t, err)
		defer a.Close()
		b, err := ln.Accept()
		require.NoError(s.t, err)
		defer b.Close()
		ended := make(chan error, 1)
		go func() { _, err := ln.Accept(); ended <- err }()
		s.tell("close", ln.Close())
		s.tell("accept under it", <-ended)
		_, err = ln.Accept()
		s.tell("accept", err)
		s.tell("close again", ln.Close())
		s.tell("write on what was accepted", write(b))
		s.tell("read there", read(a))
		again, err := s.listen(ln.Addr().String()) // while there are connections of the earlier one
		s.tell("listen at the same address again", err)
		if err == nil {
			c, err := s.dial(s.t.Context(), 0, again.Addr().String())
			s.tell("dial", err)
			if err == nil {
				c.Close()
			}
			again.Close()
		}
	},
}

// unlikeTCP are the calls that differ on purpose, by what they are with TCP.
var unlikeTCP = map[string]string{
	// net names no peer there.
	`closed: deadline: OpError set on rdma, source false addr true, timeout false, is "use of closed network connection"`: `deadline: OpError set on rdma, source true addr true, timeout false, is "use of closed network connection"`,
	// TCP forgets what its closer had written before, and says so by a reset; a Conn delivers
	// that, and the closer's end of the stream.
	`peer closed with bytes unread: write much: OpError readfrom on rdma, source true addr true, timeout false, is "connection reset by peer"`: `write much: OpError readfrom on rdma, source true addr true, timeout false, is "broken pipe"`,
}

// TestErrorsLikeTCP: what a program can tell from the error of any call, in any order of events,
// is what it can tell with TCP.
func TestErrorsLikeTCP(t *testing.T) {
	for name, sequence := range likeTCP {
		t.Run(name, func(t *testing.T) {
			tcp := &stack{t: t,
				listen: func(address string) (net.Listener, error) { return net.Listen("tcp", address) },
				dial: func(ctx context.Context, timeout time.Duration, address string) (net.Conn, error) {
					return (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
				}}
			l := anyLink(t)
			ours := &stack{t: t,
				listen: func(address string) (net.Listener, error) {
					return (&ListenConfig{Config: l.listener}).Listen(t.Context(), "rdma", address)
				},
				dial: func(ctx context.Context, timeout time.Duration, address string) (net.Conn, error) {
					return (&Dialer{Timeout: timeout, Config: l.dialer}).DialContext(ctx, "rdma", address)
				}}
			sequence(tcp)
			sequence(ours)
			for i, want := range tcp.calls {
				assert.Equal(t, cmp.Or(unlikeTCP[name+": "+want], want), ours.calls[i], "call %d of %q", i, tcp.calls)
			}
		})
	}
}
