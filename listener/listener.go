// Package listener is net.Listener for connections that need a handshake before they
// are of use.
package listener

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/farwire/farwire/conn"
)

// Defaults of Config.
const (
	DefaultTimeout = 10 * time.Second
	DefaultBacklog = 512
	DefaultPending = 128
)

// ErrEvicted is the error of a handshake that was ended because Backlog newer ones
// had come.
var ErrEvicted = errors.New("handshake evicted by newer ones")

// Config says how a Listener makes connections.
type Config struct {
	// Handshake makes a connection out of a bootstrap connection, which it owns if it
	// succeeds; if not, the Listener closes it. It must return soon after ctx is done or nc
	// is closed. It is called by many goroutines at once.
	Handshake func(ctx context.Context, nc net.Conn) (*conn.Conn, error)

	// Timeout bounds one handshake. Not positive means DefaultTimeout.
	Timeout time.Duration

	// Backlog is how many handshakes may be under way. One more ends the oldest client
	// that was not heard (see Heard), once that has had 100 ms, and if all were heard the
	// oldest, once that has had 300 ms, so that silent clients cannot keep others out.
	// Not positive means DefaultBacklog.
	Backlog int

	// MaxPending is how many connections may be finished and not yet accepted before
	// handshakes that finish hold on to their place in Backlog. Not positive means
	// DefaultPending.
	MaxPending int

	// OnError is told of clients that failed, and, with a nil address, of temporary
	// errors of the listening socket. It is called by many goroutines at once. It may be
	// nil.
	OnError func(remote net.Addr, err error)

	// Closed is called once, by Close, when no handshake is under way any more and the
	// connections that nobody accepted are gone. It may be nil.
	Closed func()
}

// Listener is a net.Listener. Its methods may be called by many goroutines at once.
type Listener struct {
	tcp    net.Listener
	cfg    Config
	addr   conn.Addr
	ready  chan *conn.Conn
	places chan struct{} // one token for each handshake under way
	ctx    context.Context
	stop   context.CancelFunc // ends ctx and so everything
	work   sync.WaitGroup
	count  counters

	mu     sync.Mutex
	oldest *handshake // those under way, in order of arrival
	newest *handshake
	closed bool
	err    error // why accepting has ended, if not by Close
}

var _ net.Listener = (*Listener)(nil)

// New returns a Listener for the clients of tcp, which it owns. It starts accepting at
// once.
func New(tcp net.Listener, cfg Config) *Listener {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Backlog <= 0 {
		cfg.Backlog = DefaultBacklog
	}
	if cfg.MaxPending <= 0 {
		cfg.MaxPending = DefaultPending
	}
	l := &Listener{
		tcp:    tcp,
		cfg:    cfg,
		addr:   conn.AddrOf(tcp.Addr()),
		ready:  make(chan *conn.Conn, cfg.MaxPending),
		places: make(chan struct{}, cfg.Backlog),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.work.Add(1)
	go l.serve()
	return l
}

// Accept returns the next finished connection, a *conn.Conn. Clients that fail never
// show here: it fails only once the listener is closed, with net.ErrClosed inside, or
// the listening socket is broken.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept for callers that want the *conn.Conn.
func (l *Listener) AcceptConn() (*conn.Conn, error) {
	if l.ctx.Err() == nil {
		select {
		case c := <-l.ready:
			return c, nil
		case <-l.ctx.Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.err != nil {
		return nil, l.opError("accept", l.err)
	}
	return nil, l.opError("accept", net.ErrClosed)
}

// Addr returns the address clients dial, with the real port. It works after Close too.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close stops listening, ends the handshakes under way and resets the connections that
// nobody has accepted. It returns once all that is done; accepted connections live on.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.opError("close", net.ErrClosed)
	}
	l.closed = true
	l.mu.Unlock()
	l.stop()
	err := l.tcp.Close()
	l.work.Wait()
	for {
		select {
		case c := <-l.ready:
			c.Abort()
			continue
		default:
		}
		if l.cfg.Closed != nil {
			l.cfg.Closed()
		}
		return l.opError("close", err)
	}
}

func (l *Listener) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: conn.Network, Addr: l.addr, Err: err}
}

func (l *Listener) report(remote net.Addr, err error) {
	if l.cfg.OnError != nil {
		l.cfg.OnError(remote, err)
	}
}
