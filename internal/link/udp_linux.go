package link

import (
	"encoding/binary"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// oobSize holds one control message with an int: the traffic class.
const oobSize = 32

// prepareSocket sets, before the socket is bound, what a RoCE packet needs
// (ip(7), ipv6(7), linux/udp.h): no fragments, which makes Linux send the IPv4
// identification 0; the traffic class of what arrives; IPv6 packets without a UDP
// checksum, as NICs and rdma_rxe send them.
func prepareSocket(network, _ string, c syscall.RawConn) error {
	options := ipv4Options
	if network == "udp6" {
		options = ipv6Options
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		for _, o := range options {
			if failed = unix.SetsockoptInt(int(fd), o.level, o.name, o.value); failed != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}

var (
	ipv4Options = []socketOption{
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		{unix.IPPROTO_IP, unix.IP_TOS, usualTClass},
	}
	ipv6Options = []socketOption{
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
func growBuffers(conn *net.UDPConn) {
	growBuffersPlainly(conn)
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer)
	})
}

// putTClass makes the control message that sends p with its traffic class.
func putTClass(p *Packet) []byte {
	if p.TClass == usualTClass {
		return nil
	}
	level, kind := uint32(unix.IPPROTO_IPV6), uint32(unix.IPV6_TCLASS)
	if p.Src.Is4() {
		level, kind = unix.IPPROTO_IP, unix.IP_TOS
	}
	// struct cmsghdr: a size_t length, level, type.
	header, total := unix.CmsgLen(0), unix.CmsgLen(4)
	b, native := p.oob[:unix.CmsgSpace(4)], binary.NativeEndian
	clear(b)
	if unix.SizeofLong == 8 {
		native.PutUint64(b, uint64(total))
	} else {
		native.PutUint32(b, uint32(total))
	}
	native.PutUint32(b[unix.SizeofLong:], level)
	native.PutUint32(b[unix.SizeofLong+4:], kind)
	native.PutUint32(b[header:], uint32(p.TClass))
	return b
}

// getTClass finds the traffic class in received control messages, or returns 0.
func getTClass(oob []byte) uint8 {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		switch {
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_TOS && len(data) >= 1:
			return data[0] // one byte, though it is sent as an int
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_TCLASS && len(data) >= 4:
			return uint8(binary.NativeEndian.Uint32(data))
		}
		oob = rest
	}
	return 0
}
