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

// SetReadBuffer does nothing: the receives are fixed when a connection is made.
func (c *Conn) SetReadBuffer(int) error { return c.option(nil) }

// SetWriteBuffer does nothing: the send buffers are fixed when a connection is made.
func (c *Conn) SetWriteBuffer(int) error { return c.option(nil) }

// SetKeepAliveConfig sets how the death of the peer's host is noticed while nothing is
// sent: it applies to the bootstrap connection, which stays open for that. The error
// is errors.ErrUnsupported if there is none or it is not TCP.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	return c.keepAlive(func(t *net.TCPConn) error { return t.SetKeepAliveConfig(config) })
}

// SetKeepAlive switches keep-alive on or off. See SetKeepAliveConfig.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.keepAlive(func(t *net.TCPConn) error { return t.SetKeepAlive(on) })
}

// SetKeepAlivePeriod sets the time between probes. See SetKeepAliveConfig.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.keepAlive(func(t *net.TCPConn) error { return t.SetKeepAlivePeriod(d) })
}

// SyscallConn fails: the bytes do not pass through a file descriptor.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	return nil, c.opError("raw", fmt.Errorf("an rdma connection has no file descriptor: %w", errors.ErrUnsupported))
}

func (c *Conn) keepAlive(set func(*net.TCPConn) error) error {
	return c.option(func() error {
		tcp, ok := c.control.(*net.TCPConn)
		if !ok {
			return fmt.Errorf("keep-alive without a tcp bootstrap connection: %w", errors.ErrUnsupported)
		}
		return set(tcp)
	})
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
