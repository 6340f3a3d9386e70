package conn

import (
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"
	"time"
)

// SetLinger is net.TCPConn's. Negative is the default, to go on sending after Close
// for as long as the peer shows signs of life at least every ten seconds; positive
// sets that time; 0 makes Close drop what has not been sent, like Abort.
func (c *Conn) SetLinger(sec int) error {
	return c.option(func() error {
		c.linger = DefaultLinger
		if sec >= 0 {
			c.linger = time.Duration(min(sec, math.MaxInt32)) * time.Second
		}
		return nil
	})
}

// SetNoDelay does nothing: no Write is ever delayed by a timer.
func (c *Conn) SetNoDelay(bool) error { return c.option(nil) }

// SetReadBuffer does nothing: the receives grow by themselves, as far as Config says.
func (c *Conn) SetReadBuffer(int) error { return c.option(nil) }

// SetWriteBuffer does nothing: the send buffers grow by themselves, as far as Config says.
func (c *Conn) SetWriteBuffer(int) error { return c.option(nil) }

// SetKeepAliveConfig sets how it is noticed, while nothing is sent, that the peer cannot
// be reached any more. It applies to both planes. The queue pair, once nothing has moved
// for config.Idle (noticed within twice that), sends a message without content. If the peer's
// NIC does not answer it, this side's NIC says so in its own time; if it says nothing for
// config.Interval times config.Count, the connection ends too. The bootstrap connection, if
// it is TCP, is probed as net.TCPConn does. docs/failures.md has the times.
//
// As with net.TCPConn 0 is the default (15 s, 15 s, 9), negative values change nothing, and
// probing is on unless it is switched off. Switching it off here also keeps the other side
// from probing much, as its probes are seen only when this side looks.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	return c.keepAlive(func() { c.alive.set(config) },
		func(t *net.TCPConn) error { return t.SetKeepAliveConfig(config) })
}

// SetKeepAlive switches keep-alive on or off. See SetKeepAliveConfig.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.keepAlive(func() { c.alive.on = on },
		func(t *net.TCPConn) error { return t.SetKeepAlive(on) })
}

// SetKeepAlivePeriod sets Idle of SetKeepAliveConfig.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.keepAlive(func() { set(&c.alive.idle, d, DefaultKeepAliveIdle) },
		func(t *net.TCPConn) error { return t.SetKeepAlivePeriod(d) })
}

// SyscallConn fails: the bytes do not pass through a file descriptor.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	return nil, c.opError("raw", fmt.Errorf("an rdma connection has no file descriptor: %w", errors.ErrUnsupported))
}

// keepAlive changes the settings of both planes.
func (c *Conn) keepAlive(queue func(), bootstrap func(*net.TCPConn) error) error {
	return c.option(func() error {
		queue()
		if c.control == nil {
			return nil // Watch begins with what is set
		}
		c.watchQueue()
		tcp := tcpOf(c.control)
		if tcp == nil {
			return nil
		}
		if err := bootstrap(tcp); err != nil {
			return err
		}
		return boundUnacknowledged(tcp, c.alive.silence())
	})
}

// tcpOf returns the TCP connection that nc is, or is TLS over, or nil.
func tcpOf(nc net.Conn) *net.TCPConn {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = over.NetConn()
	}
	tcp, _ := nc.(*net.TCPConn)
	return tcp
}

func (c *Conn) option(set func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	if set == nil {
		return nil
	}
	return c.opError("set", set())
}
