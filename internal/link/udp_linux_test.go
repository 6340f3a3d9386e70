package link

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/roce"
)

// The ICRC is right for the IP header that the kernel really sends: what a raw
// socket sees has identification 0, don't fragment, and the traffic class.
func TestUDPOnTheWire(t *testing.T) {
	a, b, _, atB := two(t)
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		t.Skip("no raw socket: ", err)
	}
	// Non-blocking, so that the poller times reads out.
	require.NoError(t, unix.SetNonblock(raw, true))
	file := os.NewFile(uintptr(raw), "raw")
	defer file.Close()
	require.NoError(t, unix.Bind(raw, &unix.SockaddrInet4{Addr: b.Addr().As4()}))
	require.NoError(t, file.SetReadDeadline(time.Now().Add(10*time.Second)))

	for i := range uint32(3) {
		p := numbered(b.Addr(), i, 1001)
		p.TClass = 0xb9
		send(a, p)
		var ip [1500]byte
		var n int
		for [4]byte(ip[16:]) != b.Addr().As4() { // others' packets may have come before the bind
			n, err = file.Read(ip[:])
			require.NoError(t, err)
		}
		be := binary.BigEndian
		require.Equal(t, byte(0x45), ip[0])
		require.Equal(t, byte(0xb9), ip[1])
		require.Equal(t, uint16(0), be.Uint16(ip[4:]))
		require.Equal(t, uint16(0x4000), be.Uint16(ip[6:]))
		path := roce.Path{
			Src: netip.AddrFrom4([4]byte(ip[12:])), Dst: netip.AddrFrom4([4]byte(ip[16:])),
			SrcPort: be.Uint16(ip[20:]), DstPort: be.Uint16(ip[22:]),
			ID: be.Uint16(ip[4:]), MayFragment: be.Uint16(ip[6:])&0x4000 == 0,
		}
		require.True(t, roce.CheckICRC(&path, ip[28:n]))
	}
	atB.wait(3)
	require.Equal(t, uint8(0xb9), atB.last.TClass)
}

func TestUDPTrafficClassIPv6(t *testing.T) {
	in := newInbox(t)
	l, err := UDP(netip.IPv6Loopback(), in.receive)
	if err != nil {
		t.Skip("no UDP link on ::1: ", err)
	}
	defer l.Close()
	p := numbered(l.Addr(), 1, 4)
	p.TClass = 0x6b
	send(l, p)
	in.wait(1)
	require.Equal(t, uint8(0x6b), in.last.TClass)
}

// NICs send IPv6 packets without a UDP checksum.
func TestUDPWithoutChecksumIPv6(t *testing.T) {
	in := newInbox(t)
	l, err := UDP(netip.IPv6Loopback(), in.receive)
	if err != nil {
		t.Skip("no UDP link on ::1: ", err)
	}
	defer l.Close()
	s := newStranger(t, l)
	raw, err := s.conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1))
	}))
	s.write(t, roce.AppendICRC(&s.path, numbered(l.Addr(), 1, 4).Buf))
	require.Equal(t, []uint32{1}, in.wait(1))
}

// A packet that does not fit the route is dropped, not fragmented.
func TestUDPDoesNotFragment(t *testing.T) {
	addr, mtu := smallInterface()
	if !addr.IsValid() {
		t.Skip("no interface with an IPv4 address has an MTU under 4160")
	}
	l, err := UDP(addr, (*Packet).Release)
	if err != nil {
		t.Skip("no UDP link on ", addr, ": ", err)
	}
	defer l.Close()
	require.Equal(t, roceMTU(mtu, addr), l.MTU())
	neighbour := addr.Next()
	send(l, numbered(neighbour, 1, roce.MaxMTU))
	require.Equal(t, uint64(1), l.Counters().Dropped[DropSend])
}

func smallInterface() (netip.Addr, int) {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && i.MTU < 4160 && i.Flags&net.FlagUp != 0 {
				return p.Addr(), i.MTU
			}
		}
	}
	return netip.Addr{}, 0
}

func TestSocketBuffers(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer conn.Close()
	l, _ := loopback(t)
	options := []int{unix.SO_RCVBUF, unix.SO_SNDBUF}
	small := []int{bufferSize(t, conn, options[0]), bufferSize(t, conn, options[1])}
	require.NoError(t, conn.SetReadBuffer(socketBuffer))
	require.NoError(t, conn.SetWriteBuffer(socketBuffer))
	for i, option := range options {
		want := bufferSize(t, conn, option)
		require.GreaterOrEqual(t, want, small[i])
		if mayForceBuffers(t, conn) {
			want = 2 * socketBuffer // the kernel doubles it
		}
		has, err := unix.GetsockoptInt(l.(*udp).fd, unix.SOL_SOCKET, option)
		require.NoError(t, err)
		require.GreaterOrEqual(t, has, want)
	}
}

// mayForceBuffers reports whether the process may go beyond the system's limit.
func mayForceBuffers(t *testing.T, conn *net.UDPConn) (may bool) {
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		may = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) == nil
	}))
	return may
}

func bufferSize(t *testing.T, conn *net.UDPConn, option int) (size int) {
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option)
	}))
	require.NoError(t, err)
	return size
}

func TestSocketOptionErrors(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.ErrorIs(t, setSocketOptions("udp6", fd), unix.ENOPROTOOPT, "IPv6 options on an IPv4 socket")
	require.NoError(t, unix.Close(fd))
	require.ErrorIs(t, setSocketOptions("udp4", fd), unix.EBADF)
}

func TestControlMessages(t *testing.T) {
	p := Get(0)
	p.TClass = 0x12
	p.Dst = bob
	require.Zero(t, parseControl(nil))
	require.Zero(t, parseControl([]byte{1, 2, 3}), "not a control message")
	var room [64]byte
	b := append([]byte{}, appendTClass(room[:0], p)...)
	require.Equal(t, received{class: 0x12}, parseControl(b))
	p.Dst = netip.IPv6Loopback()
	b6 := append([]byte{}, appendTClass(room[:0], p)...)
	require.Equal(t, received{class: 0x12}, parseControl(b6))
	require.Len(t, appendControl16(appendTClass(room[:0], p), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 4096), 2*unix.CmsgSpace(4))

	gro, data := appendControl(room[:0], unix.IPPROTO_UDP, unix.UDP_GRO, 4)
	binary.NativeEndian.PutUint32(data, 4112)
	require.Equal(t, received{class: 0x12, segment: 4112}, parseControl(append(gro, b6...)))

	level := unix.SizeofLong
	b[level] = 0xfe // a message of another kind first
	require.Zero(t, parseControl(b))
	require.Equal(t, received{class: 0x12}, parseControl(append(b, b6...)))
	for n := range b6 {
		parseControl(b6[:n])
	}
}
