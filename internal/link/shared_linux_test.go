package link

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/shm"
)

// ours is one of the addresses that no other process of these tests has.
func ours(n byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom16([16]byte{0xfd, n, byte(pid >> 24), byte(pid >> 16), byte(pid >> 8), byte(pid)})
}

// sharedEnd is a Shared, and a goroutine that polls it when it is ready.
type sharedEnd struct {
	*Shared
	in    *inbox
	kicks chan struct{}
	held  atomic.Bool // nobody polls
	done  chan struct{}
}

func newShared(t testing.TB, wire *Switch, addr netip.Addr) *sharedEnd {
	e := &sharedEnd{in: newInbox(t), kicks: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	e.Shared, err = Share(func(r Receiver) (Link, error) { return wire.Join(addr, r) }, e.kick, e.in.receive)
	require.NoError(t, err)
	go func() {
		defer close(e.done)
		for range e.kicks {
			for !e.held.Load() && e.Poll(nil) > 0 {
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		close(e.kicks)
		<-e.done
	})
	return e
}

func (e *sharedEnd) kick() {
	select {
	case e.kicks <- struct{}{}:
	default:
	}
}

// meet waits until the link has so many peers.
func (e *sharedEnd) meet(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(*e.peers.Load()) == n }, 10*time.Second, time.Millisecond)
}

// twoShared is two links that have found each other.
func twoShared(t testing.TB) (a, b *sharedEnd, wire *Switch) {
	mappings, _ := hostmem.Live()
	t.Cleanup(func() {
		now, _ := hostmem.Live()
		require.Equal(t, mappings, now, "mappings are left")
	})
	wire = NewSwitch()
	a, b = newShared(t, wire, ours(1)), newShared(t, wire, ours(2))
	a.Send(numbered(b.Addr(), 0, 4))
	a.meet(t, 1)
	b.meet(t, 1)
	require.Equal(t, []uint32{0}, b.in.got(), "by the wire")
	return a, b, wire
}

func (e *sharedEnd) byWire() uint64 { return e.wire.Counters().Sent }

func TestShared(t *testing.T) {
	a, b, _ := twoShared(t)
	require.Equal(t, 4096, a.MTU())
	const n = 2000
	go func() {
		for i := range uint32(n) {
			b.Send(numbered(a.Addr(), i, int(i*7%4097)))
			b.Flush()
		}
	}()
	for i := uint32(1); i <= n; i++ {
		p := numbered(b.Addr(), i, int(i*5%4097))
		p.TClass = 0x5a
		a.Send(p)
		a.Flush()
	}
	require.Equal(t, numbers(0, n+1), b.in.wait(n+1))
	require.Equal(t, numbers(0, n), a.in.wait(n))
	require.Equal(t, a.Addr(), b.in.last.Src)
	require.Equal(t, b.Addr(), b.in.last.Dst)
	require.Equal(t, uint8(0x5a), b.in.last.TClass)
	require.EqualValues(t, roce.Port, b.in.last.SrcPort)
	require.EqualValues(t, 1, a.byWire())
	require.Zero(t, b.byWire())
	ca, cb := a.Counters(), b.Counters()
	require.Equal(t, ca.Sent, cb.Received)
	require.Equal(t, ca.SentBytes, cb.ReceivedBytes)
	require.Equal(t, [NumDrops]uint64{}, ca.Dropped)
	require.Equal(t, [NumDrops]uint64{}, cb.Dropped)
}

// Packets made in place arrive as others do, and in order with them.
func TestSharedReserve(t *testing.T) {
	a, b, _ := twoShared(t)
	_, ok := a.Reserve(ours(9))
	require.False(t, ok)
	for i := uint32(1); i < 1000; i++ {
		p := numbered(b.Addr(), i, int(i))
		s, ok := a.Reserve(b.Addr())
		if !ok || i%3 == 0 { // no room just now
			if ok {
				s.Send(0, 0)
			}
			a.Send(p)
		} else {
			s.Send(copy(s.Buf, p.Buf), 0)
			p.Release()
		}
		a.Flush()
	}
	require.Equal(t, numbers(0, 1000), b.in.wait(1000))
	require.Equal(t, a.Counters().SentBytes, b.Counters().ReceivedBytes)
}

// What a slow reader has no room for waits, up to a bound; then all of it arrives.
func TestSharedWaits(t *testing.T) {
	a, b, _ := twoShared(t)
	b.held.Store(true)
	const room = shm.Slots + maxWaiting
	for i := uint32(1); i <= room+10; i++ {
		a.Send(numbered(b.Addr(), i, 8))
		a.Flush()
	}
	require.EqualValues(t, 10, a.Counters().Dropped[DropSend])
	b.held.Store(false)
	b.kick()
	require.Equal(t, numbers(0, room+1), b.in.wait(room+1))
}

// When a peer is gone the wire takes over; when another one has its address it is found.
func TestSharedPeerGone(t *testing.T) {
	wire := NewSwitch()
	a := newShared(t, wire, ours(1))
	for round := range uint32(3) {
		in := newInbox(t)
		b, err := Share(func(r Receiver) (Link, error) { return wire.Join(ours(2), r) }, func() {}, in.receive)
		require.NoError(t, err)
		a.Send(numbered(b.Addr(), round, 4))
		require.Equal(t, []uint32{round}, in.wait(1))
		a.meet(t, 1)
		a.Send(numbered(b.Addr(), 100, 4)) // nobody polls: it is lost
		a.Flush()
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		a.meet(t, 0)
		require.EqualValues(t, round+1, a.byWire())
		(*a.ways.Load())[b.Addr()].retry.Store(0) // as if a second had passed
	}
}

// An address that is not found is left alone for a while.
func TestSharedRetry(t *testing.T) {
	a := newShared(t, NewSwitch(), ours(1))
	a.Send(numbered(ours(2), 1, 4))
	w := (*a.ways.Load())[ours(2)]
	require.Eventually(t, func() bool { return !w.dialing.Load() }, 10*time.Second, time.Millisecond)
	retry := w.retry.Load()
	require.Greater(t, retry, now())
	a.Send(numbered(ours(2), 2, 4))
	require.Equal(t, retry, w.retry.Load())
}

// Two links that dial each other at once end with one channel.
func TestSharedBothDial(t *testing.T) {
	for range 20 {
		func() {
			wire := NewSwitch()
			a, b := newShared(t, wire, ours(1)), newShared(t, wire, ours(2))
			start := make(chan struct{})
			for _, way := range [][2]*sharedEnd{{a, b}, {b, a}} {
				go func() {
					<-start
					way[0].Send(numbered(way[1].Addr(), 1, 4))
					way[0].Flush()
				}()
			}
			close(start)
			a.meet(t, 1)
			b.meet(t, 1)
			a.in.wait(1)
			b.in.wait(1)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}()
	}
}

// Where the name of the address is taken, by another program of the user, say, there is the
// wire.
func TestSharedWithoutDoor(t *testing.T) {
	squatter, err := shm.Listen(ours(1), func(netip.Addr) bool { return false }, nil)
	require.NoError(t, err)
	defer squatter.Close()
	wire := NewSwitch()
	a, b := newShared(t, wire, ours(1)), newShared(t, wire, ours(2))
	a.Send(numbered(b.Addr(), 1, 4))
	b.Send(numbered(a.Addr(), 2, 4))
	require.Equal(t, []uint32{1}, b.in.wait(1))
	require.Equal(t, []uint32{2}, a.in.wait(1))
	require.Empty(t, *a.peers.Load())
}

func TestSharedDrops(t *testing.T) {
	a, b, _ := twoShared(t)
	p := numbered(b.Addr(), 1, 4)
	p.Buf = p.Buf[:13]
	a.Send(p)
	require.EqualValues(t, 1, a.Counters().Dropped[DropSize])
	a.Send(numbered(netip.Addr{}, 1, 4))
	require.EqualValues(t, 1, a.Counters().Dropped[DropUnknown])
	require.NoError(t, a.Close())
	a.Send(numbered(b.Addr(), 1, 4))
	require.EqualValues(t, 1, a.Counters().Dropped[DropClosed])
	_, ok := a.Reserve(b.Addr())
	require.False(t, ok)
}

// A damaged packet is found out: it has its ICRC with it.
func TestSharedDamage(t *testing.T) {
	wire := NewSwitch()
	b := newShared(t, wire, ours(2))
	var s *Shared
	a, err := Impair(func(r Receiver) (l Link, err error) {
		s, err = Share(func(r Receiver) (Link, error) { return wire.Join(ours(1), r) }, func() {}, r)
		return s, err
	}, Impairments{}, newInbox(t).receive)
	require.NoError(t, err)
	defer a.Close()
	require.True(t, a.Clear())
	a.Send(numbered(b.Addr(), 0, 4))
	b.meet(t, 1)
	require.Eventually(t, func() bool { return len(*s.peers.Load()) == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, a.Set(Impairments{Corrupt: 1}))
	require.False(t, a.Clear())
	a.Send(numbered(b.Addr(), 1, 400))
	require.NoError(t, a.Set(Impairments{}))
	a.Send(numbered(b.Addr(), 2, 400))
	a.Flush()
	require.Equal(t, []uint32{0, 2}, b.in.wait(2))
	require.EqualValues(t, 1, b.Counters().Dropped[DropICRC])
}

func TestSharedDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	a, b, _ := twoShared(t)
	got := 0
	take := func(p *Packet) {
		got++
		p.Release()
	}
	b.held.Store(true)
	require.Zero(t, testing.AllocsPerRun(500, func() {
		p := a.Get(64)
		p.Dst = b.Addr()
		a.Send(p)
		s, ok := a.Reserve(b.Addr())
		if ok {
			s.Send(64, 0)
		}
		a.Flush()
		b.Poll(take)
	}))
	require.Greater(t, got, 500)
}

// newStrangeChannel is a peer that speaks the protocol of rings and nothing else.
func newStrangeChannel(t testing.TB, to *sharedEnd) *shm.Channel {
	c, err := shm.Dial(ours(66), to.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	to.meet(t, 1)
	return c
}

// What a peer puts into a ring that is no packet is dropped and counted.
func TestSharedStranger(t *testing.T) {
	b := newShared(t, NewSwitch(), ours(2))
	c := newStrangeChannel(t, b)
	good := numbered(b.Addr(), 1, 4)
	for _, n := range []int{0, 1, 4, minSize - 1, minSize + 1, MaxSize + 4, shm.MaxPacket, 1 << 13} {
		c.Out.Room()
		c.Out.Put(0, n)
	}
	copy(c.Out.Room(), good.Buf)
	c.Out.Put(tagSealed, len(good.Buf)) // whose ICRC is nonsense
	copy(c.Out.Room(), good.Buf)
	c.Out.Put(0xffff&^tagSealed, len(good.Buf))
	good.Release()
	c.Out.Publish()
	c.Wake()
	require.Equal(t, []uint32{1}, b.in.wait(1))
	require.EqualValues(t, 8, b.Counters().Dropped[DropSize])
	require.EqualValues(t, 1, b.Counters().Dropped[DropICRC])
}

// FuzzShared is a peer that writes what it likes: packets come out that can be parsed or
// not, but never more than there is, and headers do not change while they are looked at.
func FuzzShared(f *testing.F) {
	f.Add([]byte("no packet"), uint16(0), 9)
	good := roce.Header{Opcode: roce.SendOnly, DestQP: 2, PSN: 3}
	f.Add(good.Append(nil, []byte("a packet")), uint16(0), 20)
	f.Add(good.Append(nil, []byte("a packet")), uint16(tagSealed), 20)
	f.Add([]byte{}, uint16(tagGlobal), MaxSize)
	wire := NewSwitch()
	b := newShared(f, wire, ours(2))
	b.held.Store(true)
	c := newStrangeChannel(f, b)
	f.Fuzz(func(t *testing.T, bytes []byte, tag uint16, n int) {
		room := c.Out.Room()
		if room == nil {
			t.Fatal("the ring is full")
		}
		clear(room)
		copy(room, bytes)
		c.Out.Put(tag, n)
		c.Out.Publish()
		b.Poll(func(p *Packet) {
			defer p.Release()
			require.LessOrEqual(t, len(p.Buf), MaxSize)
			for _, service := range []roce.Transport{roce.ReliableConnection, roce.UnreliableConnection, roce.Datagram} {
				before, err := roce.ParseApart(service, p.Headers(), p.Buf)
				if err != nil {
					continue
				}
				header := before.Header()
				if p.Head != nil {
					clear(room)
				}
				require.Equal(t, header, before.Header())
				require.LessOrEqual(t, len(before.Payload), len(p.Buf))
			}
		})
	})
}
