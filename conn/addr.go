package conn

import (
	"net"
	"net/netip"
)

// Addr is the address of one end of a connection: an IP address, with its zone if
// it has one, and the port of the bootstrap connection. The zero Addr is ":0".
type Addr struct {
	ap netip.AddrPort
}

var _ net.Addr = Addr{}

// AddrFrom returns the Addr of ap.
func AddrFrom(ap netip.AddrPort) Addr {
	return Addr{netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())}
}

// AddrOf returns the Addr of a TCP address, or of any address whose text is a
// literal host and port. Everything else gives the zero Addr.
func AddrOf(a net.Addr) Addr {
	switch a := a.(type) {
	case nil:
		return Addr{}
	case Addr:
		return a
	case interface{ AddrPort() netip.AddrPort }:
		return AddrFrom(a.AddrPort())
	}
	ap, _ := netip.ParseAddrPort(a.String())
	return AddrFrom(ap)
}

// Network returns "rdma".
func (a Addr) Network() string { return Network }

// String returns host:port, ready for net.SplitHostPort.
func (a Addr) String() string {
	if !a.ap.IsValid() {
		return ":0"
	}
	return a.ap.String()
}

// AddrPort returns the address as a netip.AddrPort.
func (a Addr) AddrPort() netip.AddrPort { return a.ap }
