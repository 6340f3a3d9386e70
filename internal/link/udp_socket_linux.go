package link

import (
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openSocket returns a bound socket that has what a RoCE packet needs.
func openSocket(at netip.AddrPort, network string) (fd int, err error) {
	family := unix.AF_INET6
	if network == "udp4" {
		family = unix.AF_INET
	}
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = setSocketOptions(network, fd); err == nil {
		growBuffers(fd)
		// Without it the kernel gives each packet by itself.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
		err = os.NewSyscallError("bind", unix.Bind(fd, socketAddress(at)))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func socketAddress(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	a := &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if i, err := net.InterfaceByName(at.Addr().Zone()); err == nil {
		a.ZoneId = uint32(i.Index)
	}
	return a
}

// setSocketOptions sets, before the socket is bound, what a RoCE packet needs
// (ip(7), ipv6(7), linux/udp.h): no fragments, which makes Linux send the IPv4
// identification 0; the traffic class of what arrives; IPv6 packets without a UDP
// checksum, as NICs and rdma_rxe send them.
func setSocketOptions(network string, fd int) error {
	options := ipv4Options
	if network == "udp6" {
		options = ipv6Options
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

var (
	ipv4Options = []socketOption{
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		{unix.IPPROTO_IP, unix.IP_TOS, usualTClass},
	}
	ipv6Options = []socketOption{
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, usualTClass},
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1},
	}
)

// usualTClass is that of most packets, which the socket gives to those that say nothing:
// no class in particular, and ECT(0), the sender heeds congestion marks.
const usualTClass = 2

type socketOption struct{ level, name, value int }

// growBuffers asks for large socket buffers: up to the system's limit, and beyond
// it where the process may. With small ones the link works, and loses more.
func growBuffers(fd int) {
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, socketBuffer)
	}
}

// readBuffer is how much a socket holds of what is not read yet, as Linux counts it: what
// packets occupy, see Held. It is 0 if that cannot be known.
func readBuffer(fd int) int {
	size, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return size
}

// rawAddress has room for the address of either family.
type rawAddress [unix.SizeofSockaddrInet6]byte

// put writes an address of the socket's family, and returns its length.
func (r *rawAddress) put(addr netip.Addr, port uint16) uint32 {
	if addr.Is4() {
		*(*unix.RawSockaddrInet4)(unsafe.Pointer(r)) = unix.RawSockaddrInet4{
			Family: unix.AF_INET, Port: networkOrder(port), Addr: addr.As4(),
		}
		return unix.SizeofSockaddrInet4
	}
	*(*unix.RawSockaddrInet6)(unsafe.Pointer(r)) = unix.RawSockaddrInet6{
		Family: unix.AF_INET6, Port: networkOrder(port), Addr: addr.As16(),
	}
	return unix.SizeofSockaddrInet6
}

// get reads what put writes.
func (r *rawAddress) get() (addr netip.Addr, port uint16) {
	if in := (*unix.RawSockaddrInet4)(unsafe.Pointer(r)); in.Family == unix.AF_INET {
		return netip.AddrFrom4(in.Addr), networkOrder(in.Port)
	}
	in := (*unix.RawSockaddrInet6)(unsafe.Pointer(r))
	return netip.AddrFrom16(in.Addr).Unmap(), networkOrder(in.Port)
}
