// Package conn is a net.Conn over a connected queue pair.
package conn

import "net"

// Conn is a net.Conn.
type Conn struct {
	net.Conn
}

// New posts the receives of cfg on q, which must be connected, and returns the
// connection. It sends nothing. From then on the Conn owns q and the buffers; if New
// fails they stay the caller's.
func New(q Queue, cfg Config) (*Conn, error) { return nil, cfg.check() }

// Watch hands c the connection the two sides were introduced over, once that
// exchange is over.
func (c *Conn) Watch(control net.Conn) {}

// Abort releases the connection at once: nothing more is sent.
func (c *Conn) Abort() error { return nil }
