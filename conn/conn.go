package conn

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is one connection. All methods may be called by any number of goroutines at
// once. Reads are served one after the other, and so are Writes.
//
// Errors are *net.OpError with one of these inside: os.ErrDeadlineExceeded,
// net.ErrClosed, syscall.EPIPE (the stream can take no more from this side),
// a *[ResetError] (the peer, or the way to it, is gone; errors.Is finds
// syscall.ECONNRESET, and errors.As the *verbs.StatusError if there is one), or a
// *[ProtocolError]. The end of the stream
// is io.EOF.
type Conn struct {
	q             Queue
	local, remote net.Addr
	device        string
	release       func()
	released      chan struct{} // closed once everything is given back
	watching      chan struct{} // closed once nothing reads the control connection; nil before Watch

	// rd.seat and wr.seat are taken before mu, and never both. No foreign code is called
	// with a seat held. The queue, release and the control connection's SetReadDeadline
	// are called with mu held, and so is growth.lease: they must not call back.
	rd, wr half

	mu         sync.Mutex // guards all that follows, and the lower parts of rd and wr
	flow       flow
	in         incoming
	out        outgoing
	batch      [16]Completion
	armed      bool // a notify call will follow the next completion
	moves      int  // grows with every sign of life of the peer
	done       int  // sends that have completed
	lost       bool // Poll has failed: nothing will ever complete
	gone       bool // the peer has closed the control connection
	err        error
	violated   bool // the peer broke the protocol: nothing it says counts any more
	errFlushed bool // err came from a flushed entry: a better reason may follow
	control    net.Conn
	alive      keepalive
	growth     growth
	stats      Stats

	closing  chan struct{} // closed with closed being set
	closed   bool          // Close has been called
	aborted  bool          // nothing must be sent any more
	finished bool          // the queue must not be called any more
	freed    bool          // the queue is closed; the buffers go with the last pin
	pins     int           // copies and foreign calls that use a buffer without mu
	linger   time.Duration
	drain    chan struct{} // wakes the one goroutine that waits in drained
	draining bool
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
	_ io.WriterTo   = (*Conn)(nil)
)

// New posts the receives of cfg on q, which must be connected, and returns the
// connection. It sends nothing: the caller tells the peer that the receives are
// there, and writes only once the peer has said the same. From then on the Conn owns
// q and the buffers. If New fails they stay the caller's.
func New(q Queue, cfg Config) (*Conn, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Conn{
		q:        q,
		local:    addrOr(cfg.Local),
		remote:   addrOr(cfg.Remote),
		device:   cfg.Device,
		release:  cfg.Release,
		released: make(chan struct{}),
		flow:     newFlow([2]int{len(cfg.Receives), max(len(cfg.Receives), cfg.MostReceives)}, [2]int{cfg.PeerReceives, max(cfg.PeerReceives, cfg.PeerMost)}),
		in:       newIncoming(cfg.Receives, cfg.MostReceives),
		out:      newOutgoing(cfg.Sends, cfg.MostSends, cfg.PeerSize),
		linger:   cfg.Linger,
		drain:    make(chan struct{}, 1),
		closing:  make(chan struct{}),
		rd:       newHalf(cfg.Spin),
		wr:       newHalf(cfg.Spin),
	}
	cfg.KeepAlive.Enable = true
	c.alive.set(cfg.KeepAlive)
	if c.linger <= 0 {
		c.linger = DefaultLinger
	}
	c.growth.lease = cfg.Lease
	for i := range cfg.Receives {
		if err := q.PostReceive(uint64(i), cfg.Receives[i]); err != nil {
			return nil, fmt.Errorf("conn: post receive: %w", err)
		}
		c.in.posted[i] = true
	}
	q.Notify(c.notified)
	return c, nil
}

// LocalAddr returns the address of this end, also after Close. It is never nil.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end, also after Close. It is never nil.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Device names the device that the connection uses, for people.
func (c *Conn) Device() string { return c.device }

// Released returns a channel that is closed once the connection, after Close, has
// given back its queue and its buffers.
func (c *Conn) Released() <-chan struct{} { return c.released }

func addrOr(a net.Addr) net.Addr {
	if a == nil {
		return Addr{}
	}
	return a
}
