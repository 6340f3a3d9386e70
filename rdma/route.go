package rdma

import (
	"net"
	"net/netip"

	"github.com/farwire/farwire/conn"
)

// route is what the choice of a device goes by.
type route struct {
	local, remote netip.Addr // of the TCP connection, IPv4 never mapped into IPv6
	peer          netip.Addr // the peer's GID, where it is known before the choice
}

func routeOf(control net.Conn) route {
	return route{
		local:  conn.AddrOf(control.LocalAddr()).AddrPort().Addr().WithZone(""),
		remote: conn.AddrOf(control.RemoteAddr()).AddrPort().Addr().WithZone(""),
	}
}

// inMachine reports whether both ends are on this machine. A peer that shows a
// loopback GID has chosen the software NIC of this machine, whatever the addresses.
func (r route) inMachine() bool {
	return r.local.IsLoopback() || r.local == r.remote || r.peer.IsLoopback()
}
