package link

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

func TestSwitchDelivers(t *testing.T) {
	a, b, atA, atB := pair(t)
	require.Equal(t, alice, a.Addr())
	require.Equal(t, roce.MaxMTU, a.MTU())

	p := numbered(bob, 1, 100)
	p.TClass = 0x0a
	a.Send(p)
	b.Send(numbered(alice, 2, 0))
	b.Send(numbered(alice, 3, roce.MaxMTU))
	b.Flush()
	require.Equal(t, []uint32{1}, atB.got())
	require.Equal(t, []uint32{2, 3}, atA.got())
	require.Equal(t, alice, atB.last.Src)
	require.Equal(t, bob, atB.last.Dst)
	require.Equal(t, uint16(roce.Port), atB.last.SrcPort)
	require.Equal(t, uint8(0x0a), atB.last.TClass)

	require.Equal(t, Counters{Sent: 1, SentBytes: 112, Received: 2, ReceivedBytes: 24 + 4096}, a.Counters())
	require.Equal(t, Counters{Sent: 2, SentBytes: 24 + 4096, Received: 1, ReceivedBytes: 112}, b.Counters())
}

func TestSwitchToItself(t *testing.T) {
	a, _, atA, _ := pair(t)
	a.Send(numbered(alice, 9, 4))
	require.Equal(t, []uint32{9}, atA.got())
	require.Equal(t, alice, atA.last.Src)
}

// The source is the link's address whatever the sender wrote, and a mapped
// destination is the same address.
func TestSwitchAddresses(t *testing.T) {
	a, _, _, atB := pair(t)
	p := numbered(netip.AddrFrom16(bob.As16()), 1, 4)
	p.Src = netip.MustParseAddr("192.0.2.99")
	a.Send(p)
	require.Equal(t, []uint32{1}, atB.got())
	require.Equal(t, alice, atB.last.Src)
	require.Equal(t, bob, atB.last.Dst)
}

func TestSwitchDrops(t *testing.T) {
	a, b, _, atB := pair(t)
	a.Send(numbered(netip.MustParseAddr("10.7.0.3"), 1, 4))
	a.Send(numbered(netip.Addr{}, 1, 4))
	require.Equal(t, uint64(2), a.Counters().Dropped[DropUnknown])

	p := a.Get(13)
	p.Dst = bob
	a.Send(p)
	require.Equal(t, uint64(1), a.Counters().Dropped[DropSize])

	p = numbered(bob, 1, 4)
	p.stamp(alice)
	p.seal()
	p.Buf[10] ^= 4
	a.Send(p)
	require.Equal(t, uint64(1), b.Counters().Dropped[DropICRC])
	p = numbered(bob, 5, 4)
	p.stamp(alice)
	p.seal()
	a.Send(p)
	require.Equal(t, []uint32{5}, atB.got(), "a good ICRC is taken off")

	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	a.Send(numbered(bob, 1, 4))
	require.Equal(t, uint64(3), a.Counters().Dropped[DropUnknown])
	b.Send(numbered(alice, 1, 4))
	require.Equal(t, uint64(1), b.Counters().Dropped[DropClosed])
	require.Equal(t, []uint32{5}, atB.got())
}

func TestSwitchJoin(t *testing.T) {
	s := NewSwitch()
	a, err := s.Join(alice, nil)
	require.NoError(t, err)
	require.True(t, s.Has(alice))
	require.True(t, s.Has(netip.AddrFrom16(alice.As16())))
	require.False(t, s.Has(bob))

	for _, taken := range []netip.Addr{alice, netip.AddrFrom16(alice.As16())} {
		l, err := s.Join(taken, nil)
		require.ErrorIs(t, err, ErrAddrInUse)
		require.Nil(t, l)
	}
	for _, bad := range []netip.Addr{
		{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("224.0.0.1"),
		netip.MustParseAddr("ff02::1"), netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("::ffff:0.0.0.0"),
	} {
		_, err := s.Join(bad, nil)
		require.ErrorIs(t, err, ErrAddr, bad)
	}

	require.NoError(t, a.Close())
	require.False(t, s.Has(alice))
	a, err = s.Join(netip.AddrFrom16(alice.As16()), nil)
	require.NoError(t, err)
	require.Equal(t, alice, a.Addr())
	require.NoError(t, a.Close())
}

// Close waits for the receiver, which may pass packets to the closing link
// meanwhile.
func TestSwitchCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSwitch()
		inside, leave := make(chan struct{}), make(chan struct{})
		var a Link
		b, err := s.Join(bob, func(p *Packet) {
			p.Release()
			close(inside)
			<-leave
			a.Send(numbered(bob, 2, 4)) // would deadlock if b's door were a read lock
		})
		require.NoError(t, err)
		a, err = s.Join(alice, nil)
		require.NoError(t, err)
		defer a.Close()

		go a.Send(numbered(bob, 1, 4))
		<-inside
		closed := false
		go func() { b.Close(); closed = true }()
		synctest.Wait()
		require.False(t, closed)
		close(leave)
		synctest.Wait()
		require.True(t, closed)
		require.Equal(t, uint64(1), a.Counters().Dropped[DropUnknown])
		require.Equal(t, uint64(1), b.Counters().Received)
	})
}

// Many links join, send to everybody and leave at once; each packet is received
// or counted as dropped.
func TestSwitchConcurrently(t *testing.T) {
	s := NewSwitch()
	const links, packets = 8, 500
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }
	total := make([]Counters, links)
	var all sync.WaitGroup
	for i := range links {
		all.Go(func() {
			for range 5 {
				l, err := s.Join(addr(i), (*Packet).Release)
				if err != nil {
					t.Error(err)
					return
				}
				for n := range packets {
					l.Send(numbered(addr(n%links), 1, 4))
				}
				l.Close()
				total[i] = total[i].add(l.Counters())
			}
		})
	}
	all.Wait()
	var sum Counters
	for _, c := range total {
		sum = sum.add(c)
	}
	require.Equal(t, sum.Sent, sum.Received)
	require.Equal(t, sum.SentBytes, sum.ReceivedBytes)
	require.Equal(t, uint64(links*5*packets), sum.Sent+sum.Dropped[DropUnknown])
}

func TestSwitchDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	s := NewSwitch()
	a, err := s.Join(alice, (*Packet).Release)
	require.NoError(t, err)
	defer a.Close()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		p := a.Get(64)
		p.Dst = alice
		a.Send(p)
	}))
}

func TestDropNames(t *testing.T) {
	seen := map[string]bool{}
	for d := range NumDrops {
		require.NotEmpty(t, Drop(d).String())
		require.False(t, seen[Drop(d).String()])
		seen[Drop(d).String()] = true
	}
	require.Equal(t, "unknown reason", Drop(NumDrops).String())
}

func BenchmarkSwitch(b *testing.B) {
	s := NewSwitch()
	l, err := s.Join(alice, (*Packet).Release)
	require.NoError(b, err)
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		p := l.Get(64)
		p.Dst = alice
		l.Send(p)
	}
}
