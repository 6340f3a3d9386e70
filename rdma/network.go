package rdma

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/farwire/farwire/conn"
)

// tcpNetworks are the networks of this package and what they are on the TCP side.
var tcpNetworks = map[string]string{
	"rdma": "tcp", "rdma4": "tcp4", "rdma6": "tcp6",
	"tcp": "tcp", "tcp4": "tcp4", "tcp6": "tcp6",
}

func tcpNetwork(network string) (string, error) {
	if tcp, ok := tcpNetworks[network]; ok {
		return tcp, nil
	}
	return "", net.UnknownNetworkError(network)
}

// opError is err as net would return it. An error that net made keeps its addresses,
// but says network and op.
func opError(op, network string, source, addr net.Addr, err error) error {
	if inner, ok := err.(*net.OpError); ok {
		source, addr, err = inner.Source, inner.Addr, inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = timeoutError{err}
	}
	return &net.OpError{Op: op, Net: network, Source: rdmaAddr(source), Addr: rdmaAddr(addr), Err: err}
}

// timeoutError makes the OpError around it a timeout, however deep the reason is.
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (e timeoutError) Unwrap() error { return e.error }

// rdmaAddr is a TCP address as an address of this package.
func rdmaAddr(a net.Addr) net.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return conn.AddrOf(tcp)
	}
	return a
}
