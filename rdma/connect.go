package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/listener"
	"github.com/farwire/farwire/rdma/work"
)

// dial makes a connection with the listener at the other end of control, which stays
// the caller's if it fails.
func (c Config) dial(ctx context.Context, control net.Conn) (*conn.Conn, error) {
	h := handshake{config: c, control: control}
	if err := h.open(); err != nil {
		return h.finish(err)
	}
	_, err := c.exchange().Dial(ctx, control, h.message(), h.connect)
	return h.finish(err)
}

// accept is the listener's side of dial, whose port the listener keeps.
func (c Config) accept(ctx context.Context, control net.Conn, keep *held) (*conn.Conn, error) {
	h := handshake{config: c, control: control, held: keep}
	_, err := c.exchange().Accept(ctx, control, func(peer bootstrap.Message) (bootstrap.Message, error) {
		listener.Heard(ctx)
		if err := h.open(); err != nil {
			return bootstrap.Message{}, refused(bootstrap.CodeResources, err)
		}
		return h.message(), h.connect(peer)
	})
	return h.finish(err)
}

func (c Config) exchange() bootstrap.Exchange {
	return bootstrap.Exchange{Timeout: c.HandshakeTimeout, Features: bootstrap.GrowingWindows}
}

// handshake is a connection in the making. What it has opened belongs to conn once that
// is there.
type handshake struct {
	config  Config
	control net.Conn
	held    *held // of the listener, if this is its side

	port    *port
	pair    *pair
	buffers []*conn.Lease
	conn    *conn.Conn
}

// open makes an unconnected queue pair, with its buffers, on the device that suits the
// route.
func (h *handshake) open() (err error) {
	c := h.config
	if h.port, err = c.ports.acquire(c.Device, routeOf(h.control), c.Logger); err != nil {
		return err
	}
	h.held.keep(h.port)
	if h.pair, err = newPair(h.port, c.Sends+conn.Reserve, c.Receives); err != nil {
		return fmt.Errorf("device %s: %w", h.port.name, err)
	}
	return h.lease(c.firstSends() + c.firstReceives())
}

// lease takes n buffers for as long as the connection lasts.
func (h *handshake) lease(n int) error {
	l, err := h.port.lease(lasting, h.config.BufferSize, n, h.config.MaxMemory)
	if err != nil {
		return fmt.Errorf("device %s: %w", h.port.name, err)
	}
	h.buffers = append(h.buffers, l)
	return nil
}

// grow takes a buffer for a busy connection.
func (h *handshake) grow() (*conn.Lease, error) {
	return h.port.lease(passing, h.config.BufferSize, 1, h.config.MaxMemory/2)
}

// message is what the peer is told.
func (h *handshake) message() bootstrap.Message {
	return bootstrap.Message{
		Endpoint: h.pair.Endpoint(),
		Receives: uint32(h.config.Receives),
		Size:     uint32(h.config.BufferSize),
		First:    uint32(h.config.firstReceives()),
	}
}

// connect connects the queue pair to the peer's and posts the receives.
func (h *handshake) connect(peer bootstrap.Message) (err error) {
	own := h.pair.Endpoint()
	if a, b := own.GID.Addr().Unmap(), peer.Endpoint.GID.Addr().Unmap(); a.IsLoopback() != b.IsLoopback() {
		return refused(bootstrap.CodeEndpoint,
			fmt.Errorf("device %s at %v cannot reach the peer's at %v", h.port.name, a, b))
	}
	if err := h.pair.Connect(work.Local, peer.Endpoint); err != nil {
		return refused(bootstrap.CodeEndpoint, fmt.Errorf("device %s: %w", h.port.name, err))
	}
	peerFirst, sends := peer.First, h.config.firstSends()
	if peerFirst == 0 { // the peer does not know that windows grow
		peerFirst = peer.Receives
		if more := h.config.Receives - h.config.firstReceives(); more > 0 {
			if err := h.lease(more); err != nil {
				return refused(bootstrap.CodeResources, err)
			}
		}
	}
	var buffers []conn.Buffer
	for _, l := range h.buffers {
		buffers = append(buffers, l.Buffers...)
	}
	h.conn, err = conn.New(h.pair, conn.Config{
		Local:        conn.AddrOf(h.control.LocalAddr()),
		Remote:       conn.AddrOf(h.control.RemoteAddr()),
		Device:       h.port.name,
		Sends:        buffers[:sends],
		Receives:     buffers[sends:],
		MostSends:    h.config.Sends,
		MostReceives: h.config.Receives,
		PeerReceives: int(peerFirst),
		PeerMost:     int(peer.Receives),
		Lease:        h.grow,
		PeerSize:     int(min(peer.Size, uint32(h.config.BufferSize))),
		Spin:         h.config.Spin,
		Linger:       h.config.Linger,
		KeepAlive:    h.config.keepAlive,
		Release:      h.release,
	})
	return err
}

// finish returns the connection, or gives everything back if err ended the exchange.
func (h *handshake) finish(err error) (*conn.Conn, error) {
	switch {
	case err == nil:
		h.conn.Watch(h.control)
		return h.conn, nil
	case h.conn != nil:
		return nil, errors.Join(err, h.conn.Abort())
	case h.pair != nil:
		err = errors.Join(err, h.pair.Close())
	}
	h.release()
	return nil, err
}

// release gives back the buffers and the port, after the queue pair is gone.
func (h *handshake) release() {
	for _, l := range h.buffers {
		l.Release()
	}
	if h.port != nil {
		h.port.release()
	}
}

// refused is an error that the peer is told in full.
func refused(code bootstrap.Code, err error) error {
	return &bootstrap.RefusedError{Code: code, Text: err.Error(), Err: err}
}
