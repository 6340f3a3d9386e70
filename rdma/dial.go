package rdma

import (
	"context"
	"net"
	"time"

	"github.com/farwire/farwire/conn"
)

// Dial connects to address, with the zero Dialer. Its errors are *net.OpError.
func Dial(network, address string) (net.Conn, error) {
	return new(Dialer).Dial(network, address)
}

// Dialer connects. The zero Dialer is ready for use. It is safe for concurrent use.
type Dialer struct {
	// Timeout bounds the whole of a Dial: looking the name up, TCP, and the exchange
	// of endpoints. Default none but Config.HandshakeTimeout and the system's.
	Timeout time.Duration

	// KeepAlive is how it is noticed that the peer cannot be reached any more, by queue
	// pair and by the TCP connection. Default 15 s, 15 s, 9, as in net.Dialer; see
	// conn.Conn.SetKeepAliveConfig, which can also switch it off.
	KeepAlive net.KeepAliveConfig

	Config Config
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to address, trying each address of its host name until one
// accepts TCP. It fits http.Transport.DialContext and grpc.WithContextDialer. ctx bounds
// the dialing only, not the connection. The error is a *net.OpError; inside it are what
// net.Dialer gives (syscall.ECONNREFUSED, ...), a *bootstrap.RefusedError if either side
// would not have the other, or the error of the device.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, network, address string) (*conn.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	tcp, err := tcpNetwork(network)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	config, err := d.Config.withDefaults()
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	config.keepAlive = d.KeepAlive
	control, err := (&net.Dialer{KeepAliveConfig: d.KeepAlive}).DialContext(ctx, tcp, address)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	c, err := config.dial(ctx, control)
	if err != nil {
		control.Close()
		return nil, opError("dial", network, control.LocalAddr(), control.RemoteAddr(), err)
	}
	return c, nil
}
