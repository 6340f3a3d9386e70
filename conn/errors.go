package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Network is the name of the network in addresses and errors.
const Network = "rdma"

// ProtocolError says how the peer broke the protocol. The connection is closed.
type ProtocolError struct {
	Reason string
}

func (e *ProtocolError) Error() string { return "protocol error: " + e.Reason }

// Plane is one of the two ways by which the ends of a connection reach each other.
type Plane uint8

const (
	QueuePair Plane = 1 // the queue pair, which carries the bytes
	Bootstrap Plane = 2 // the bootstrap connection, which is kept open
)

func (p Plane) String() string {
	switch p {
	case QueuePair:
		return "queue pair"
	case Bootstrap:
		return "bootstrap connection"
	}
	return fmt.Sprintf("plane %d", uint8(p))
}

// ResetError is a lost connection. errors.Is finds syscall.ECONNRESET in it, and errors.As
// whatever was the reason, such as a *verbs.StatusError.
type ResetError struct {
	Plane Plane // where the loss was noticed first
	Err   error
}

func (e *ResetError) Error() string {
	return fmt.Sprintf("%v: %v: %v", syscall.ECONNRESET, e.Plane, e.Err)
}

// Unwrap returns syscall.ECONNRESET and Err.
func (e *ResetError) Unwrap() []error { return []error{syscall.ECONNRESET, e.Err} }

var (
	errInvalidWrite = errors.New("invalid count from Write")
	errInvalidRead  = errors.New("invalid count from Read")
	errHangup       = errors.New("closed by the peer")
)

// opError makes every error a method of Conn returns. The end of the stream stays a
// bare io.EOF, as readers compare it with ==.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: Network, Source: c.local, Addr: c.remote, Err: err}
}
