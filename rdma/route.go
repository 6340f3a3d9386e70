package rdma

import (
	"net"
	"net/netip"
	"slices"

	"github.com/farwire/farwire/conn"
)

// route is what the choice of a device goes by.
type route struct {
	local, remote netip.Addr // of the TCP connection, IPv4 never mapped into IPv6
}

func routeOf(control net.Conn) route {
	return route{
		local:  conn.AddrOf(control.LocalAddr()).AddrPort().Addr().WithZone(""),
		remote: conn.AddrOf(control.RemoteAddr()).AddrPort().Addr().WithZone(""),
	}
}

// inMachine reports whether both ends are on this machine.
func (r route) inMachine() bool {
	return r.local.IsLoopback() || r.local == r.remote || isOwn(r.remote)
}

// isOwn reports whether addr is an address of this machine.
func isOwn(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	own, _ := net.InterfaceAddrs() // none if they cannot be seen
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(addr.AsSlice())
	})
}
