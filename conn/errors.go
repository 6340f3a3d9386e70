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

// resetError is a lost connection: errors.Is finds syscall.ECONNRESET, and errors.As
// whatever the queue said, such as a *verbs.StatusError.
type resetError struct {
	cause error
}

func (e *resetError) Error() string   { return fmt.Sprintf("%v: %v", syscall.ECONNRESET, e.cause) }
func (e *resetError) Unwrap() []error { return []error{syscall.ECONNRESET, e.cause} }

var (
	errInvalidWrite = errors.New("invalid count from Write")
	errInvalidRead  = errors.New("invalid count from Read")
	errHangup       = errors.New("peer closed the bootstrap connection")
)

// opError makes every error a method of Conn returns. The end of the stream stays a
// bare io.EOF, as readers compare it with ==.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: Network, Source: c.local, Addr: c.remote, Err: err}
}
