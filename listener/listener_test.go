package listener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farwire/farwire/conn"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idleQueue is a queue on which nothing ever happens. live counts those not closed.
type idleQueue struct{ live *atomic.Int32 }

func (q idleQueue) PostSend(uint64, conn.Buffer, uint32, bool) error { return nil }
func (q idleQueue) PostReceive(uint64, conn.Buffer) error            { return nil }
func (q idleQueue) Poll([]conn.Completion) (int, error)              { return 0, nil }
func (q idleQueue) Arm() error                                       { return nil }
func (q idleQueue) Notify(func())                                    {}
func (q idleQueue) Close() error                                     { q.live.Add(-1); return nil }

// server is a Listener whose handshake is one byte: 'y' for a connection, 'n' for a
// failure.
type server struct {
	*Listener
	t    *testing.T
	live atomic.Int32 // connections not closed
	pipe *pipeListener

	mu     sync.Mutex
	errs   []error
	remote []net.Addr
}

var errRefused = errors.New("refused")

func newServer(t *testing.T, cfg Config) *server {
	s := &server{t: t, pipe: newPipeListener()}
	s.start(s.pipe, cfg)
	return s
}

func (s *server) start(l net.Listener, cfg Config) {
	if cfg.Handshake == nil {
		cfg.Handshake = s.handshake
	}
	cfg.OnError = func(remote net.Addr, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
		s.remote = append(s.remote, remote)
	}
	s.Listener = New(l, cfg)
}

func (s *server) handshake(ctx context.Context, nc net.Conn) (*conn.Conn, error) {
	var b [1]byte
	if _, err := io.ReadFull(nc, b[:]); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if b[0] == 'n' {
		return nil, errRefused
	}
	s.live.Add(1)
	bufs := make([]conn.Buffer, 5)
	for i := range bufs {
		bufs[i].Bytes = make([]byte, conn.MinSize)
	}
	c, err := conn.New(idleQueue{&s.live}, conn.Config{
		Sends: bufs[:1], Receives: bufs[1:], PeerReceives: conn.MinReceives, PeerSize: conn.MinSize,
		Remote: nc.RemoteAddr(),
	})
	if err == nil {
		c.Watch(nc)
	}
	return c, err
}

func (s *server) reported() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.errs...)
}

// pipeListener is a net.Listener in memory.
type pipeListener struct {
	conns  chan any // net.Conn or error
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan any), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case v := <-l.conns:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v.(net.Conn), nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7471} }

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

func (l *pipeListener) dialAndSay(s string) net.Conn {
	nc := l.dial()
	io.WriteString(nc, s)
	return nc
}

func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		require.Equal(t, "10.0.0.1:7471", s.Addr().String())
		require.Equal(t, "rdma", s.Addr().Network())
		bad, silent, good := s.pipe.dialAndSay("n"), s.pipe.dial(), s.pipe.dialAndSay("y")
		c, err := s.Accept()
		require.NoError(t, err)
		require.IsType(t, &conn.Conn{}, c)
		synctest.Wait()
		require.ErrorIs(t, s.reported()[0], errRefused)
		_, err = bad.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err, "a client that failed is closed")

		require.NoError(t, s.Close())
		_, err = silent.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.Equal(t, int32(1), s.live.Load(), "accepted connections live on")
		require.Len(t, s.reported(), 1, "Close is nobody's fault")
		c.(*conn.Conn).Abort()
		<-c.(*conn.Conn).Released()
		good.Close()
		require.Zero(t, s.live.Load())
		require.Equal(t, "10.0.0.1:7471", s.Addr().String())
	})
}

func TestTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{-1, 0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{Timeout: timeout, Backlog: -1, MaxPending: -1})
			start := time.Now()
			nc := s.pipe.dial()
			_, err := nc.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			want := timeout
			if want <= 0 {
				want = DefaultTimeout
			}
			require.Equal(t, want, time.Since(start))
			synctest.Wait()
			require.Len(t, s.reported(), 1)
			require.ErrorIs(t, s.reported()[0], context.DeadlineExceeded)
			require.NoError(t, s.Close())
		})
	}
}

// TestTooLate: a handshake that succeeds although its time is over gives no connection.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, pipe: newPipeListener()}
		s.start(s.pipe, Config{Timeout: time.Second, Handshake: func(ctx context.Context, nc net.Conn) (*conn.Conn, error) {
			near, far := net.Pipe()
			go near.Write([]byte("y"))
			c, err := s.handshake(ctx, far)
			time.Sleep(2 * time.Second)
			return c, err
		}})
		nc := s.pipe.dial()
		_, err := nc.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, s.reported()[0], context.DeadlineExceeded)
		require.Zero(t, s.live.Load())
		require.NoError(t, s.Close())
	})
}

// TestFlood: any number of silent clients cannot keep a good one out, and no more than
// Backlog of them are ever held.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Backlog: 4})
		start := time.Now()
		var open []net.Conn
		for range 50 {
			open = append(open, s.pipe.dial())
		}
		time.Sleep(silentAge)
		synctest.Wait()
		require.Len(t, s.reported(), 46)
		for i, err := range s.reported() {
			require.ErrorIs(t, err, ErrEvicted)
			_, rerr := open[i].Read(make([]byte, 1))
			require.Equal(t, io.EOF, rerr, "the oldest go first")
		}
		require.Equal(t, (46+3)/4*silentAge+silentAge, time.Since(start))
		good := s.pipe.dialAndSay("y")
		c, err := s.AcceptConn()
		require.NoError(t, err)
		c.Abort()
		<-c.Released()
		good.Close()
		require.NoError(t, s.Close())
		require.Zero(t, s.live.Load())
	})
}

// TestHeard: a client that was heard is not evicted for one that was not, and has more
// time than one that was not.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		s := newServer(t, Config{Backlog: 2, Handshake: func(ctx context.Context, nc net.Conn) (*conn.Conn, error) {
			var b [1]byte
			if _, err := io.ReadFull(nc, b[:]); err != nil {
				return nil, err
			}
			Heard(ctx)
			Heard(context.Background()) // of no handshake
			select {
			case <-slow:
			case <-ctx.Done():
			}
			return nil, errRefused
		}})
		heard := []net.Conn{s.pipe.dialAndSay("y")}
		synctest.Wait()
		s.pipe.dial()
		s.pipe.dial() // evicts the one before, in time
		time.Sleep(silentAge)
		synctest.Wait()
		require.Equal(t, Stats{Accepted: 3, Failed: 1, Evicted: 1, UnderWay: 2}, s.Stats())
		heard = append(heard, s.pipe.dialAndSay("y")) // which waits for its place
		synctest.Wait()
		require.Equal(t, Stats{Accepted: 4, Failed: 2, Evicted: 2, UnderWay: 2}, s.Stats())
		s.pipe.dial() // both were heard: the older one has its time
		time.Sleep(minAge - 2*silentAge - 1)
		synctest.Wait()
		require.Equal(t, uint64(4), s.Stats().Accepted)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, Stats{Accepted: 5, Failed: 3, Evicted: 3, UnderWay: 2}, s.Stats())
		_, err := heard[0].Read(make([]byte, 1))
		require.Equal(t, io.EOF, err, "the older one went")
		close(slow)
		synctest.Wait()
		require.Equal(t, uint64(4), s.Stats().Failed)
		require.NoError(t, s.Close())
	})
}

// TestPending: finished connections that nobody takes keep their places, so that their
// number is bounded, and are not evicted.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Backlog: 2, MaxPending: 3})
		var dialed atomic.Int32
		for range 20 {
			go func() {
				near, far := net.Pipe()
				defer near.Close()
				select {
				case s.pipe.conns <- far:
				case <-s.pipe.closed:
					return
				}
				dialed.Add(1)
				io.WriteString(near, "y")
				near.Read(make([]byte, 1))
			}()
		}
		synctest.Wait()
		require.Equal(t, int32(5), s.live.Load())
		require.Equal(t, int32(6), dialed.Load(), "one more waits for a place")
		c, err := s.AcceptConn()
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, int32(6), s.live.Load())
		require.Empty(t, s.reported())
		require.NoError(t, s.Close())
		require.Equal(t, int32(1), s.live.Load(), "those that nobody took are closed")
		c.Abort()
		<-c.Released()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32
		s := newServer(t, Config{Closed: func() { closed.Add(1) }})
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() { _, err := s.Accept(); errs <- err }()
		}
		synctest.Wait()
		require.NoError(t, s.Close())
		for range cap(errs) {
			requireClosed(t, <-errs, "accept")
		}
		_, err := s.Accept()
		requireClosed(t, err, "accept")
		requireClosed(t, s.Close(), "close")
		require.Equal(t, int32(1), closed.Load())
	})
}

func requireClosed(t *testing.T, err error, op string) {
	t.Helper()
	require.ErrorIs(t, err, net.ErrClosed)
	var oe *net.OpError
	require.ErrorAs(t, err, &oe)
	require.Equal(t, op, oe.Op)
	require.Equal(t, "rdma", oe.Net)
	require.Equal(t, "10.0.0.1:7471", oe.Addr.String())
}

// TestAcceptErrors: temporary errors are waited out, others end the listener.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		start := time.Now()
		for range 10 {
			s.pipe.conns <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		nc := s.pipe.dialAndSay("y")
		c, err := s.AcceptConn()
		require.NoError(t, err)
		require.Equal(t, 5+10+20+40+80+160+320+640+1000+1000, int(time.Since(start)/time.Millisecond))
		require.Len(t, s.reported(), 10)
		require.Nil(t, s.remote[0])
		require.ErrorIs(t, s.reported()[0], syscall.EMFILE)

		s.pipe.conns <- errRefused
		_, err = s.Accept()
		require.ErrorIs(t, err, errRefused)
		require.IsType(t, &net.OpError{}, err)
		require.NoError(t, s.Close())
		_, err = s.Accept()
		requireClosed(t, err, "accept")
		c.Abort()
		<-c.Released()
		nc.Close()
	})
	synctest.Test(t, func(t *testing.T) { // closed in the middle of a wait
		s := newServer(t, Config{})
		s.pipe.conns <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		synctest.Wait()
		require.NoError(t, s.Close())
	})
}

// TestTCP is the real thing: a port of the system's choice, and its real number.
func TestTCP(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t}
	s.start(tcp, Config{})
	require.Equal(t, tcp.Addr().String(), s.Addr().String())
	var work sync.WaitGroup
	for range 50 {
		work.Go(func() {
			nc, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			io.WriteString(nc, "y")
			nc.Read(make([]byte, 1)) // until the server is done
		})
	}
	for range 50 {
		c, err := s.AcceptConn()
		require.NoError(t, err)
		require.NotEqual(t, ":0", c.RemoteAddr().String())
		c.Abort()
		<-c.Released()
	}
	work.Wait()
	require.NoError(t, s.Close())
	require.Empty(t, s.reported())
	_, err = net.Dial("tcp", tcp.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
