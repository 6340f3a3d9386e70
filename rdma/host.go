package rdma

import (
	"net"
	"net/netip"
	"slices"
)

// host is the network of the machine, or of the network namespace that this process is in.
type host interface {
	// owns reports whether one of its interfaces has the address. A zone is not looked at.
	owns(addr netip.Addr) bool
	// addrs returns the addresses of an interface, and whether there is one of that name.
	addrs(name string) ([]netip.Addr, bool)
	// with returns the name of an interface that has the address, or "".
	with(addr netip.Addr) string
}

// thisHost is the one that this process runs on. What cannot be seen is not there.
type thisHost struct{}

func (thisHost) owns(addr netip.Addr) bool {
	own, _ := net.InterfaceAddrs()
	return hasAddr(own, addr)
}

func (thisHost) addrs(name string) ([]netip.Addr, bool) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, false
	}
	all, _ := i.Addrs()
	var addrs []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, true
}

func (thisHost) with(addr netip.Addr) string {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if all, _ := i.Addrs(); hasAddr(all, addr) {
			return i.Name
		}
	}
	return ""
}

func hasAddr(all []net.Addr, addr netip.Addr) bool {
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(addr.AsSlice())
	})
}
