package rdma

import (
	"net"
	"net/netip"
	"slices"

	"github.com/farwire/farwire/conn"
)

// route is what the choice of a device goes by.
type route struct {
	local, remote netip.Addr // IPv4 never mapped into IPv6, no zones
	netdev        string     // the zone of local: the interface of a link-local address
}

func routeOf(control net.Conn) route {
	return routeBetween(
		conn.AddrOf(control.LocalAddr()).AddrPort().Addr(),
		conn.AddrOf(control.RemoteAddr()).AddrPort().Addr())
}

func routeBetween(local, remote netip.Addr) route {
	return route{local.Unmap().WithZone(""), remote.Unmap().WithZone(""), local.Zone()}
}

// inMachine reports whether both ends are on this machine. A link-local address may be
// that of many machines, but on one link of only one.
func (r route) inMachine(h host) bool {
	if r.local == r.remote || r.local.IsLoopback() || r.remote.IsLoopback() {
		return true
	}
	if r.remote.Is6() && r.remote.IsLinkLocalUnicast() && r.netdev != "" {
		addrs, _ := h.addrs(r.netdev)
		return slices.Contains(addrs, r.remote)
	}
	return h.owns(r.remote)
}
