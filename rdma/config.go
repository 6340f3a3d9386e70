package rdma

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
)

// DeviceEnv names the environment variable that chooses the device.
const DeviceEnv = "FARWIRE_DEVICE"

// Names in DeviceEnv and Config.Device that are not those of an RDMA device.
const (
	Soft     = "soft"     // the software NIC
	Hardware = "hardware" // the card that has the address of the route, and an error if none has
)

// Config tunes connections. The zero Config is ready for use. The two ends may differ:
// smaller values win.
type Config struct {
	// Device is the device to use. Default $FARWIRE_DEVICE, else the one whose address
	// the route to the peer has; see the package comment.
	Device string

	// BufferSize is the size in bytes of the buffers that messages are sent from and
	// received in. Default conn.DefaultSize; conn.MinSize to conn.MaxSize.
	BufferSize int

	// Receives is how many receives are posted while the connection is busy: messages of
	// the peer that may be on their way or unread, of which conn.Reserve are kept for credits
	// and the end of the stream. A connection begins with FirstReceives of them, posts more
	// when the peer uses those up quickly, and gives them back when it has sent nothing for
	// some seconds; with a peer that does not know of that it has all from the start.
	// Default conn.DefaultReceives; conn.MinReceives to conn.MaxReceives.
	Receives int

	// Sends is how many messages of this side may be on their way. A connection begins with
	// buffers for FirstSends of them and takes more when it needs them. Default
	// conn.DefaultSends; at least 1.
	Sends int

	// MaxMemory is the most bytes of message buffers that the process may have registered
	// on the device, for all connections, whatever their Config; it is registered 1 MiB
	// at a time, or a buffer if that is more. A connection takes BufferSize times what
	// it begins with, FirstSends and FirstReceives, and later up to Sends and Receives. One
	// for which more would have to be registered is not made: Dial fails, or the peer's
	// does, with conn.ErrPoolLimit inside. Connections do not grow into the second half of
	// MaxMemory, so that busy ones leave room for new ones; they do without what they cannot
	// have. Memory that connections give back is kept for others, but for no more than 1 MiB
	// for new ones and 1 MiB for busy ones that nobody uses. Default, and if it is 0, no limit.
	MaxMemory int

	// Spin bounds how long a blocked Read or Write polls before it parks. Default
	// conn.DefaultSpin, which is used only while it pays; negative never spins.
	Spin time.Duration

	// Linger bounds how long after Close unsent data may go without progress before it
	// is given up. Default, and if it is not positive, conn.DefaultLinger.
	Linger time.Duration

	// HandshakeTimeout bounds the exchange of endpoints after the TCP connection is
	// there. Default bootstrap.DefaultTimeout.
	HandshakeTimeout time.Duration

	// Logger is told of each device that is opened, and why that one. Default none.
	Logger *slog.Logger

	keepAlive net.KeepAliveConfig // of the Dialer or ListenConfig

	ports *ports // where devices are opened; nil is system
}

// FirstReceives and FirstSends are how many buffers a connection begins with, unless its
// Config has fewer: 112 KiB of the default size.
const (
	FirstReceives = conn.Reserve + 2
	FirstSends    = 2
)

func (c *Config) firstReceives() int { return min(c.Receives, FirstReceives) }
func (c *Config) firstSends() int    { return min(c.Sends, FirstSends) }

// withDefaults returns c with every zero field set, or says which field is out of range.
func (c Config) withDefaults() (Config, error) {
	c.Device = cmp.Or(c.Device, os.Getenv(DeviceEnv))
	c.BufferSize = cmp.Or(c.BufferSize, conn.DefaultSize)
	c.Receives = cmp.Or(c.Receives, conn.DefaultReceives)
	c.Sends = cmp.Or(c.Sends, conn.DefaultSends)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, bootstrap.DefaultTimeout)
	if c.ports == nil {
		c.ports = system
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"BufferSize", c.BufferSize, conn.MinSize, conn.MaxSize},
		{"Receives", c.Receives, conn.MinReceives, conn.MaxReceives},
		{"Sends", c.Sends, 1, conn.MaxReceives - conn.Reserve},
	} {
		if f.v < f.lo || f.v > f.hi {
			return c, fmt.Errorf("config: %s %d is outside %d to %d", f.name, f.v, f.lo, f.hi)
		}
	}
	if need := c.BufferSize * (c.firstSends() + c.firstReceives()); c.MaxMemory != 0 && c.MaxMemory < need {
		return c, fmt.Errorf("config: MaxMemory %d is less than the %d bytes of one connection", c.MaxMemory, need)
	}
	if c.HandshakeTimeout < 0 {
		return c, fmt.Errorf("config: HandshakeTimeout %v is negative", c.HandshakeTimeout)
	}
	return c, nil
}
