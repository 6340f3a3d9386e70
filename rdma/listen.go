package rdma

import (
	"context"
	"net"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/listener"
)

// Listen listens on address with the zero ListenConfig. Its errors are *net.OpError.
func Listen(network, address string) (net.Listener, error) {
	var lc ListenConfig
	return lc.Listen(context.Background(), network, address)
}

// ListenConfig listens. The zero ListenConfig is ready for use.
type ListenConfig struct {
	// Backlog is how many handshakes may be under way at once. Default, and if it is not
	// positive, listener.DefaultBacklog.
	Backlog int

	// KeepAlive is Dialer.KeepAlive, for accepted connections.
	KeepAlive net.KeepAliveConfig

	// OnError is told of each client whose handshake failed; Accept is not. It is
	// called from many goroutines at once and must not block. Default none.
	OnError func(remote net.Addr, err error)

	Config Config
}

// Listen listens on address, whose port may be 0 for any. Accept of the listener returns
// connections whose handshake is over, and fails only once the listener is closed.
// The listener keeps the devices open that its clients have come to.
// Closing it leaves accepted connections open. A configured device must be
// there when Listen is called. ctx bounds the looking up of the address only.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	tcp, err := tcpNetwork(network)
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	config, err := lc.Config.withDefaults()
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	if err := config.ports.finder.check(config.Device); err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	config.keepAlive = lc.KeepAlive
	inner, err := (&net.ListenConfig{KeepAliveConfig: lc.KeepAlive}).Listen(ctx, tcp, address)
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	keep := &held{}
	return listener.New(inner, listener.Config{
		Handshake: func(ctx context.Context, nc net.Conn) (*conn.Conn, error) { return config.accept(ctx, nc, keep) },
		Closed:    keep.release,
		Timeout:   config.HandshakeTimeout,
		Backlog:   lc.Backlog,
		OnError:   lc.OnError,
	}), nil
}
