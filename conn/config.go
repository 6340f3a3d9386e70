package conn

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Limits of a connection's rings and messages. A queue pair given to New must have
// room for MostSends+Reserve sends and MostReceives receives of its Config.
const (
	// Reserve is how many receives, of those a side posts, only control messages may
	// use, and how many sends are set aside for them. See the package comment.
	Reserve = 3

	MinReceives = Reserve + 1
	MaxReceives = 1 << 15
	MinSize     = 64      // bytes of the smallest receive buffer
	MaxSize     = 1 << 30 // bytes of the largest
)

// Values that suit most connections: 16 receives and 8 sends of 16 KiB are 384 KiB.
const (
	DefaultReceives = 16
	DefaultSends    = 8
	DefaultSize     = 16 << 10
	DefaultLinger   = 10 * time.Second
	DefaultSpin     = 20 * time.Microsecond
)

// Config says what a Conn is made of.
type Config struct {
	// Local and Remote are what LocalAddr and RemoteAddr return. Nil is the zero Addr.
	Local, Remote net.Addr

	// Device is what Device returns.
	Device string

	// Sends are the buffers that Write fills, at least one. Their number is how many
	// data messages may be on their way at once.
	Sends []Buffer

	// Receives are the buffers New posts, MinReceives to MaxReceives of them, each of
	// at least MinSize bytes and all of one size.
	Receives []Buffer

	// PeerReceives and PeerSize are the number and the size of the receive buffers
	// the peer has posted before this side may write.
	PeerReceives, PeerSize int

	// MostReceives and MostSends are how many buffers there may come to be of either kind
	// while the connection is busy, with those that Lease returns. If they are not more than
	// there are, nothing grows. The receives may grow only if the peer knows: its
	// PeerMost is this side's MostReceives.
	MostReceives, MostSends int

	// PeerMost is how many receives the peer has said it may come to post; 0 is
	// PeerReceives.
	PeerMost int

	// Lease returns one buffer more, of the size of the others. The Conn gives it back when
	// it was idle for a while, and at the end. It must not call the Conn. It may be nil.
	Lease func() (*Lease, error)

	// Spin bounds how long a blocked Read or Write polls before it parks. 0 means
	// DefaultSpin, a negative value never spins.
	Spin time.Duration

	// Linger bounds how long after Close unsent data may go without any progress
	// before it is given up. Not positive means DefaultLinger.
	Linger time.Duration

	// KeepAlive is as for [Conn.SetKeepAliveConfig], from Watch on, but that it is always
	// enabled and concerns the queue pair alone. The zero value is the defaults.
	KeepAlive net.KeepAliveConfig

	// Release is called once, after the queue is closed and nothing uses the buffers
	// any more. It must not call the Conn. It may be nil.
	Release func()
}

func (c *Config) check() error {
	switch {
	case len(c.Sends) == 0:
		return errors.New("conn: no send buffers")
	case len(c.Receives) < MinReceives || len(c.Receives) > MaxReceives:
		return fmt.Errorf("conn: %d receives, want %d to %d", len(c.Receives), MinReceives, MaxReceives)
	case c.PeerReceives < MinReceives || c.PeerReceives > MaxReceives:
		return fmt.Errorf("conn: peer has %d receives, want %d to %d", c.PeerReceives, MinReceives, MaxReceives)
	case c.MostReceives > MaxReceives || c.MostSends > MaxReceives:
		return fmt.Errorf("conn: up to %d receives and %d sends, want no more than %d", c.MostReceives, c.MostSends, MaxReceives)
	case c.PeerMost > MaxReceives:
		return fmt.Errorf("conn: peer has up to %d receives, want no more than %d", c.PeerMost, MaxReceives)
	case c.PeerSize < MinSize || c.PeerSize > MaxSize:
		return fmt.Errorf("conn: peer's receives have %d bytes, want %d to %d", c.PeerSize, MinSize, MaxSize)
	}
	for _, b := range c.Receives {
		if len(b.Bytes) < MinSize || len(b.Bytes) > MaxSize || len(b.Bytes) != len(c.Receives[0].Bytes) {
			return fmt.Errorf("conn: a receive buffer of %d bytes", len(b.Bytes))
		}
	}
	for _, b := range c.Sends {
		if len(b.Bytes) < MinSize {
			return fmt.Errorf("conn: a send buffer of %d bytes", len(b.Bytes))
		}
	}
	return nil
}
