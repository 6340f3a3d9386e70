package link

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

var ip4Localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// send sends one packet at once.
func send(l Link, p *Packet) {
	l.Send(p)
	l.Flush()
}

// loopback opens a link on some address of 127/8; it skips the test where another
// stack has the port.
func loopback(t testing.TB) (Link, *inbox) {
	t.Helper()
	in := newInbox(t)
	l, err := LoopbackUDP(in.receive)
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken on all addresses: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, in
}

// two opens two of them; it skips the test where there is only 127.0.0.1.
func two(t testing.TB) (a, b Link, atA, atB *inbox) {
	t.Helper()
	a, atA = loopback(t)
	if a.Addr() == ip4Localhost {
		t.Skip("the system has one loopback address only")
	}
	b, atB = loopback(t)
	return a, b, atA, atB
}

func TestUDPExchange(t *testing.T) {
	a, b, atA, atB := two(t)
	require.NotEqual(t, a.Addr(), b.Addr())
	const packets = 200
	for i := range uint32(packets) {
		a.Send(numbered(b.Addr(), i, int(i)))
		b.Send(numbered(a.Addr(), i, a.MTU()))
		a.Flush()
		b.Flush()
		require.Equal(t, numbers(0, i+1), atB.wait(int(i+1)))
		require.Equal(t, numbers(0, i+1), atA.wait(int(i+1)))
	}
	require.Equal(t, a.Addr(), atB.last.Src)
	require.Equal(t, b.Addr(), atB.last.Dst)
	require.Equal(t, uint16(roce.Port), atB.last.SrcPort)

	sent, received := a.Counters(), b.Counters()
	require.Equal(t, uint64(packets), sent.Sent)
	require.Equal(t, sent.Sent, received.Received)
	require.Equal(t, sent.SentBytes, received.ReceivedBytes)
	require.Equal(t, [NumDrops]uint64{}, sent.Dropped)
	require.Equal(t, [NumDrops]uint64{}, received.Dropped)
}

func TestUDPIPv6(t *testing.T) {
	in := newInbox(t)
	l, err := UDP(netip.IPv6Loopback(), in.receive)
	if err != nil {
		t.Skip("no UDP link on ::1: ", err)
	}
	defer l.Close()
	for i := range uint32(50) {
		p := numbered(l.Addr(), i, l.MTU())
		p.TClass = 0x22
		send(l, p)
		require.Equal(t, numbers(0, i+1), in.wait(int(i+1)))
	}
	require.Equal(t, netip.IPv6Loopback(), in.last.Src)
	send(l, numbered(ip4Localhost, 1, 4))
	require.Equal(t, uint64(1), l.Counters().Dropped[DropUnknown])
}

// An IPv6 link-local address needs its zone to be bound, and is shown without.
func TestUDPLinkLocal(t *testing.T) {
	addr, ok := linkLocal()
	if !ok {
		t.Skip("no interface has an IPv6 link-local address")
	}
	in := newInbox(t)
	l, err := UDP(addr, in.receive)
	if err != nil {
		t.Skip("no UDP link on ", addr, ": ", err)
	}
	defer l.Close()
	require.Equal(t, addr.WithZone(""), l.Addr())
	send(l, numbered(l.Addr(), 1, 64))
	require.Equal(t, []uint32{1}, in.wait(1))
	require.Equal(t, l.Addr(), in.last.Src)
}

func linkLocal() (netip.Addr, bool) {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() && i.Flags&net.FlagUp != 0 {
				return p.Addr().WithZone(i.Name), true
			}
		}
	}
	return netip.Addr{}, false
}

// stranger sends datagrams to a link from a socket of its own.
type stranger struct {
	conn *net.UDPConn
	path roce.Path
}

func newStranger(t *testing.T, to Link) *stranger {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), roce.Port)))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	from := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return &stranger{conn, roce.Path{Src: from.Addr().Unmap(), SrcPort: from.Port(), Dst: to.Addr(), DstPort: roce.Port}}
}

func (s *stranger) write(t *testing.T, b []byte) {
	_, err := s.conn.Write(b)
	require.NoError(t, err)
}

// A stranger's packets are taken with any identification and source port, if the
// ICRC is right.
func TestUDPReceivesWithAnyIdentification(t *testing.T) {
	l, in := loopback(t)
	s := newStranger(t, l)
	for i, id := range []uint16{0, 1, 0x1234, 0xffff} {
		s.path.ID, s.path.MayFragment = id, i%2 == 1
		p := numbered(l.Addr(), uint32(i), 5)
		s.write(t, roce.AppendICRC(&s.path, p.Buf))
		require.Equal(t, numbers(0, uint32(i+1)), in.wait(i+1))
	}
	require.Equal(t, s.path.SrcPort, in.last.SrcPort)
	require.Equal(t, [NumDrops]uint64{}, l.Counters().Dropped)
}

// A source that always sent 0 and then something else has probably not.
func TestUDPDoubtsNewIdentifications(t *testing.T) {
	l, in := loopback(t)
	s := newStranger(t, l)
	for i := range uint32(steadyAfter) {
		s.write(t, roce.AppendICRC(&s.path, numbered(l.Addr(), i, 4).Buf))
	}
	s.path.ID = 0x1234
	s.write(t, roce.AppendICRC(&s.path, numbered(l.Addr(), 100, 4).Buf))
	s.write(t, roce.AppendICRC(&s.path, numbered(l.Addr(), steadyAfter, 4).Buf))
	require.Equal(t, numbers(0, steadyAfter+1), in.wait(steadyAfter+1))
	require.Equal(t, uint64(1), l.Counters().Dropped[DropICRC])
}

func TestUDPDropsReceived(t *testing.T) {
	l, in := loopback(t)
	s := newStranger(t, l)
	good := roce.AppendICRC(&s.path, numbered(l.Addr(), 1, 5).Buf)
	bad := append([]byte{}, good...)
	bad[13] ^= 0x10

	s.write(t, bad)
	for _, n := range []int{0, 1, 4, 15, len(good) - 1} {
		s.write(t, good[:n])
	}
	s.write(t, make([]byte, MaxSize+8))
	s.write(t, make([]byte, 20000))
	s.write(t, good)
	require.Equal(t, []uint32{1}, in.wait(1), "only the good one")
	c := l.Counters()
	require.Equal(t, uint64(1), c.Dropped[DropICRC])
	require.Equal(t, uint64(1), c.Received)
	require.Equal(t, uint64(7), c.Dropped[DropSize]+c.Dropped[DropReceive], "Windows reports what is too long as an error")
}

func TestUDPDropsSent(t *testing.T) {
	l, _ := loopback(t)
	for _, dst := range []netip.Addr{{}, netip.IPv6Loopback(), netip.MustParseAddr("224.0.0.1"), netip.IPv4Unspecified()} {
		send(l, numbered(dst, 1, 4))
	}
	require.Equal(t, uint64(4), l.Counters().Dropped[DropUnknown])

	p := l.Get(14)
	p.Dst = l.Addr()
	send(l, p)
	require.Equal(t, uint64(1), l.Counters().Dropped[DropSize])
	require.Zero(t, l.Counters().Sent)
}

// What the kernel will not send is dropped; the link lives on.
func TestUDPSendError(t *testing.T) {
	l, in := loopback(t)
	l.Send(numbered(netip.MustParseAddr("240.0.0.1"), 1, 4)) // reserved: no route, or not from here
	if l.Counters().Dropped[DropSend] == 0 {
		t.Skip("the system sends from 127/8 to 240.0.0.1")
	}
	send(l, numbered(l.Addr(), 2, 4))
	require.Equal(t, []uint32{2}, in.wait(1))
}

func TestUDPAddrInUse(t *testing.T) {
	l, _ := loopback(t)
	again, err := UDP(l.Addr(), nil)
	require.ErrorIs(t, err, ErrAddrInUse)
	require.ErrorContains(t, err, "port 4791 of this address belongs to another RoCE stack")
	require.ErrorContains(t, err, l.Addr().String())
	require.Nil(t, again)
}

func TestUDPBadAddr(t *testing.T) {
	for _, addr := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.MustParseAddr("224.0.0.1")} {
		_, err := UDP(addr, nil)
		require.ErrorIs(t, err, ErrAddr)
	}
	_, err := UDP(netip.MustParseAddr("203.0.113.77"), nil) // documentation: not ours
	require.Error(t, err)
	require.True(t, isAddrNotAvailable(err), err)
}

// Close returns when the receiver has, and then the port is free.
func TestUDPClose(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	l, err := LoopbackUDP(func(p *Packet) {
		p.Release()
		close(inside)
		<-leave
	})
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken on all addresses: ", err)
	}
	require.NoError(t, err)
	send(l, numbered(l.Addr(), 1, 4))
	<-inside
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	select {
	case <-closed:
		t.Fatal("closed while the receiver runs")
	case <-time.After(20 * time.Millisecond): // the time it is given to go wrong
	}
	close(leave)
	require.NoError(t, <-closed)
	require.NoError(t, l.Close())

	send(l, numbered(l.Addr(), 1, 4))
	require.Equal(t, uint64(1), l.Counters().Dropped[DropClosed])
	l, err = UDP(l.Addr(), (*Packet).Release)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestUDPDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	arrived := make(chan struct{})
	l, err := LoopbackUDP(func(p *Packet) {
		p.Release()
		arrived <- struct{}{}
	})
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken on all addresses: ", err)
	}
	require.NoError(t, err)
	defer l.Close()
	require.Zero(t, testing.AllocsPerRun(200, func() {
		p := l.Get(64)
		p.Dst, p.TClass = l.Addr(), 2
		send(l, p)
		<-arrived
	}))
}

func TestRandomLoopback(t *testing.T) {
	for range 200_000 {
		b := randomLoopback().As4()
		if b[0] != 127 || b[1] == 0 && b[2] == 0 || b[3] == 0 || b[3] == 255 {
			t.Fatal(b)
		}
	}
}

func TestPickLoopback(t *testing.T) {
	var tried []netip.Addr
	taken := func(addr netip.Addr) (Link, error) {
		tried = append(tried, addr)
		return nil, ErrAddrInUse
	}
	_, err := pickLoopback(taken)
	require.ErrorIs(t, err, ErrAddrInUse)
	require.Len(t, tried, loopbackTries)
	require.NotEqual(t, tried[0], tried[1])

	tried = nil
	want := NewSwitch()
	l, err := pickLoopback(func(addr netip.Addr) (Link, error) {
		if tried = append(tried, addr); addr != ip4Localhost {
			return nil, &net.OpError{Err: syscall.EADDRNOTAVAIL}
		}
		return want.Join(addr, nil)
	})
	require.NoError(t, err)
	require.Equal(t, ip4Localhost, l.Addr())
	require.Len(t, tried, 2)
	require.NoError(t, l.Close())

	tried = nil
	_, err = pickLoopback(func(addr netip.Addr) (Link, error) {
		tried = append(tried, addr)
		return nil, ErrAddr
	})
	require.ErrorIs(t, err, ErrAddr)
	require.Len(t, tried, 1)
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		ip     int
		v4, v6 int
	}{
		{65536, 4096, 4096}, {4180, 4096, 4096}, {4179, 4096, 2048}, {4160, 4096, 2048}, {4159, 2048, 2048},
		{1500, 1024, 1024}, {1088, 1024, 512}, {1087, 512, 512}, {340, 256, 256}, {0, 256, 256},
	} {
		require.Equal(t, c.v4, roceMTU(c.ip, alice), "IP MTU %d", c.ip)
		require.Equal(t, c.v6, roceMTU(c.ip, netip.IPv6Loopback()), "IP MTU %d", c.ip)
	}
	require.Equal(t, 1024, interfaceMTU(netip.MustParseAddr("203.0.113.77")), "an address of no interface")
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				require.Equal(t, roceMTU(i.MTU, p.Addr()), interfaceMTU(p.Addr()), "%s %v", i.Name, p)
			}
		}
	}
}

func TestIdentificationHistory(t *testing.T) {
	var h idHistory
	steady := func() {
		for range steadyAfter {
			require.True(t, h.plausible(alice, 0))
		}
	}
	require.True(t, h.plausible(alice, 4711), "nothing known yet")
	steady()
	require.True(t, h.plausible(alice, smallID-1), "a place in a batch")
	require.False(t, h.plausible(alice, smallID), "damaged, more likely")
	require.True(t, h.plausible(alice, 4712), "or it changed")
	steady()
	require.True(t, h.plausible(bob, 4711), "another source")
	require.False(t, h.plausible(alice, 4711))

	// A source that takes another's place begins anew.
	for i := range 256 {
		steady()
		require.True(t, h.plausible(netip.AddrFrom4([4]byte{10, 3, 4, byte(i)}), 4711), i)
	}
}

func TestBackoff(t *testing.T) {
	require.Zero(t, backoff(1))
	require.Zero(t, backoff(16))
	require.Equal(t, time.Millisecond, backoff(17))
	require.Equal(t, 20*time.Millisecond, backoff(1000))
}

// Any datagram is dropped and counted once, or received whole.
func FuzzArrive(f *testing.F) {
	path := roce.Path{Src: alice, Dst: bob, SrcPort: 4791, DstPort: 4791, ID: 99}
	f.Add(roce.AppendICRC(&path, numbered(bob, 1, 5).Buf))
	f.Add([]byte{})
	f.Add(make([]byte, 16))
	f.Add(make([]byte, storeSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), storeSize)]
		u := newUDPEnd(bob, func(p *Packet) {
			require.Equal(t, b[:len(b)-4], p.Buf)
			require.Equal(t, bob, p.Dst)
			p.Release()
		})
		p := Get(0)
		p.Src, p.SrcPort = alice, 4791
		u.arrive(p, p.store[:copy(p.store[:], b)])
		c := u.Counters()
		require.Equal(t, uint64(1), c.Received+c.Dropped[DropSize]+c.Dropped[DropICRC])
	})
}

func BenchmarkUDP(b *testing.B) {
	for _, size := range []int{16, 4112} {
		b.Run(map[int]string{16: "16B", 4112: "4112B"}[size], func(b *testing.B) {
			arrived := make(chan struct{})
			l, err := LoopbackUDP(func(p *Packet) {
				p.Release()
				arrived <- struct{}{}
			})
			require.NoError(b, err)
			defer l.Close()
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				p := l.Get(size)
				p.Dst = l.Addr()
				send(l, p)
				<-arrived
			}
		})
	}
}
