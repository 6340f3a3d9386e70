package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// carol is on the other side of trunks.
var carol = netip.MustParseAddr("fd00::3")

// sockets is the two ends of a Unix connection.
func sockets(t testing.TB) (a, b net.Conn) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skip(err)
	}
	defer ln.Close()
	a, err = net.Dial("unix", ln.Addr().String())
	require.NoError(t, err)
	b, err = ln.Accept()
	require.NoError(t, err)
	return a, b
}

// serve serves one end of a connection; what Serve returns comes when it does.
func serve(ctx context.Context, s *Switch, conn net.Conn) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, conn, "kind") }()
	return done
}

// trunkTo is a trunk to a switch, which ends with the test.
func trunkTo(t testing.TB, s *Switch) *Trunk {
	a, b := sockets(t)
	served := serve(t.Context(), s, b)
	trunk, err := NewTrunk(a, "kind")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, trunk.Close())
		require.NoError(t, <-served)
	})
	return trunk
}

func joined(t testing.TB, n interface {
	Join(netip.Addr, Receiver) (Link, error)
}, addr netip.Addr) (Link, *inbox) {
	in := newInbox(t)
	l, err := n.Join(addr, in.receive)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, in
}

// A switch, two trunks to it, and packets from each to each.
func TestTrunk(t *testing.T) {
	s := NewSwitch()
	a, atA := joined(t, s, alice)
	one, two := trunkTo(t, s), trunkTo(t, s)
	b, atB := joined(t, one, bob)
	c, atC := joined(t, two, carol)
	require.Equal(t, carol, c.Addr())
	require.Equal(t, roce.MaxMTU, c.MTU())
	require.True(t, s.Has(bob))

	p := numbered(netip.AddrFrom16(bob.As16()), 1, 100)
	p.TClass, p.Global = 0x0a, true
	a.Send(p)
	c.Send(numbered(bob, 2, roce.MaxMTU))
	b.Send(numbered(bob, 3, 0))
	require.Equal(t, []uint32{1}, atB.wait(3)[:1])
	b.Send(numbered(alice, 4, 1))
	require.Equal(t, []uint32{4}, atA.wait(1))
	require.Equal(t, bob, atA.last.Src)
	require.EqualValues(t, roce.Port, atA.last.SrcPort)
	p = b.Get(0)
	p.Release()
	p = numbered(carol, 5, 100)
	p.TClass, p.Global = 0x0b, true
	b.Send(p)
	b.Flush()
	require.Equal(t, []uint32{5}, atC.wait(1))
	require.EqualValues(t, 0x0b, atC.last.TClass)
	require.Equal(t, carol, atC.last.Dst)

	require.EqualValues(t, 3, b.Counters().Sent)
	require.EqualValues(t, 3, b.Counters().Received)
	require.EqualValues(t, roce.MaxMTU+roce.BTHSize, c.Counters().SentBytes)
}

// The flag of a global route crosses both ways.
func TestTrunkGlobal(t *testing.T) {
	s := NewSwitch()
	trunk := trunkTo(t, s)
	got := make(chan bool, 1)
	receive := func(p *Packet) { got <- p.Global; p.Release() }
	a, err := s.Join(alice, receive)
	require.NoError(t, err)
	defer a.Close()
	b, err := trunk.Join(bob, receive)
	require.NoError(t, err)
	defer b.Close()
	for _, global := range []bool{true, false} {
		for _, way := range []struct {
			from Link
			to   netip.Addr
		}{{a, bob}, {b, alice}} {
			p := numbered(way.to, 1, 4)
			p.Global = global
			way.from.Send(p)
			require.Equal(t, global, <-got)
		}
	}
}

func TestTrunkJoin(t *testing.T) {
	s := NewSwitch()
	joined(t, s, alice)
	trunk := trunkTo(t, s)
	_, err := trunk.Join(alice, nil)
	require.ErrorIs(t, err, ErrAddrInUse)
	_, err = trunk.Join(netip.Addr{}, nil)
	require.ErrorIs(t, err, ErrAddr)
	require.True(t, trunk.Has(alice))
	require.False(t, trunk.Has(bob))
	b, err := trunk.Join(bob, (*Packet).Release)
	require.NoError(t, err)
	require.True(t, trunk.Has(netip.AddrFrom16(bob.As16())))
	_, err = s.Join(bob, nil)
	require.ErrorIs(t, err, ErrAddrInUse)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	again, err := trunk.Join(bob, (*Packet).Release) // after the leave, in order
	require.NoError(t, err)
	require.NoError(t, again.Close())

	for i := range maxTrunkLinks {
		joined(t, trunk, netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i + 1)}))
	}
	_, err = trunk.Join(carol, nil)
	require.ErrorContains(t, err, "refused")
}

func TestTrunkDrops(t *testing.T) {
	s := NewSwitch()
	joined(t, s, alice)
	trunk := trunkTo(t, s)
	b, err := trunk.Join(bob, (*Packet).Release)
	require.NoError(t, err)
	p := b.Get(13)
	p.Dst = alice
	b.Send(p)
	b.Send(numbered(netip.Addr{}, 1, 4))
	require.NoError(t, b.Close())
	b.Send(numbered(alice, 1, 4))
	dropped := b.Counters().Dropped
	require.EqualValues(t, 1, dropped[DropSize])
	require.EqualValues(t, 1, dropped[DropUnknown])
	require.EqualValues(t, 1, dropped[DropClosed])
}

// Damage done on purpose crosses a trunk, and is seen behind it.
func TestTrunkDamage(t *testing.T) {
	s := NewSwitch()
	a, atA := joined(t, s, alice)
	b, atB := joined(t, trunkTo(t, s), bob)
	send := func(from Link, to netip.Addr, flip byte) {
		p := numbered(to, 7, 8)
		p.stamp(from.Addr())
		p.seal()
		p.Buf[10] ^= flip
		from.Send(p)
	}
	send(b, alice, 4)
	send(b, alice, 0)
	require.Equal(t, []uint32{7}, atA.wait(1))
	require.EqualValues(t, 1, a.Counters().Dropped[DropICRC])
	send(a, bob, 4)
	send(a, bob, 0)
	require.Equal(t, []uint32{7}, atB.wait(1))
}

// What ends a trunk ends it for both, and takes its links off the switch. What was sent
// before the trunk was closed arrives.
func TestTrunkEnds(t *testing.T) {
	for name, end := range map[string]func(trunk *Trunk, stop func(), theirs net.Conn){
		"near": func(trunk *Trunk, _ func(), _ net.Conn) { trunk.Close() },
		"far":  func(_ *Trunk, stop func(), _ net.Conn) { stop() },
		"dead": func(_ *Trunk, _ func(), theirs net.Conn) { theirs.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSwitch()
			_, atA := joined(t, s, alice)
			theirs, ours := sockets(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			served := serve(ctx, s, ours)
			trunk, err := NewTrunk(theirs, "kind")
			require.NoError(t, err)
			b, _ := joined(t, trunk, bob)
			for i := range uint32(100) {
				b.Send(numbered(alice, i, 2000))
			}
			if name == "near" {
				defer func() { require.Equal(t, numbers(0, 100), atA.wait(100)) }()
			}
			end(trunk, stop, theirs)
			err = <-served
			if name == "near" || name == "far" {
				require.NoError(t, err)
			}
			<-trunk.Done()
			require.False(t, s.Has(bob))
			_, err = trunk.Join(carol, nil)
			require.Error(t, err)
			require.NoError(t, trunk.Close())
			require.NoError(t, trunk.Close())
			require.False(t, trunk.Has(alice))
			b.Send(numbered(alice, 1, 4))
			require.EqualValues(t, 1, b.Counters().Dropped[DropSend])
		})
	}
}

// An end whose peer takes nothing drops packets, does not wait with them, and gives up
// after a while.
func TestTrunkStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSwitch()
		a, err := s.Join(alice, (*Packet).Release)
		require.NoError(t, err)
		theirs, ours := net.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		served := serve(ctx, s, ours)
		hello(t, theirs)
		write(t, theirs, addrFrame(frameJoin, bob))
		_, _, err = readFrame(bufio.NewReaderSize(theirs, trunkBuffer))
		require.NoError(t, err)
		for range 2 * trunkQueue {
			a.Send(numbered(bob, 1, 4000))
		}
		// Its questions fill what room is left, and then it hears nothing either.
		go func() {
			for range trunkQueue {
				if _, err := theirs.Write(addrFrame(frameJoin, bob)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		start := time.Now()
		stop()
		require.NoError(t, <-served)
		require.LessOrEqual(t, time.Since(start), 2*trunkPatience)
		require.NoError(t, a.Close())
		theirs.Close()
	})
}

// An end whose peer takes nothing gives up on what it has to say too.
func TestTrunkNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		defer theirs.Close()
		go hello(t, theirs)
		trunk, err := NewTrunk(ours, "kind")
		require.NoError(t, err)
		for trunk.push(numbered(bob, 1, 4)) {
			synctest.Wait() // the writer takes some
		}
		start := time.Now()
		_, err = trunk.Join(carol, nil)
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), roomPatience)
		<-trunk.Done()
		require.NoError(t, trunk.Close())
	})
}

// What is queued while the writer flushes is written before the trunk ends.
func TestTrunkFlushAtClose(t *testing.T) {
	for range 16 { // either of two ends would do half of the time
		synctest.Test(t, func(t *testing.T) {
			theirs, ours := net.Pipe()
			go hello(t, theirs)
			trunk, err := NewTrunk(ours, "kind")
			require.NoError(t, err)
			require.NoError(t, trunk.put(addrFrame(frameLeave, bob)))
			synctest.Wait() // the writer waits for the peer to take it
			require.NoError(t, trunk.put(addrFrame(frameLeave, carol)))
			closed := make(chan struct{})
			go func() { _ = trunk.Close(); close(closed) }()
			synctest.Wait()
			said, err := io.ReadAll(theirs)
			require.NoError(t, err)
			require.Len(t, said, 2*(frameHead+addrSize))
			require.NoError(t, theirs.Close())
			<-closed
		})
	}
}

// hello greets and takes the greeting.
func hello(t testing.TB, c net.Conn) {
	text := trunkVersion + "kind"
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, frameHead+len(text)))
		done <- err
	}()
	write(t, c, append(appendFrame(nil, frameHello, len(text)), text...))
	require.NoError(t, <-done)
}

func write(t testing.TB, c net.Conn, b []byte) {
	_, err := c.Write(b)
	require.NoError(t, err)
}

func TestTrunkLabels(t *testing.T) {
	for _, labels := range [][2]string{{"roce", "ib"}, {"", "ib"}} {
		a, b := sockets(t)
		s := NewSwitch()
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context(), a, labels[0]) }()
		_, err := NewTrunk(b, labels[1])
		require.ErrorIs(t, err, ErrLabel)
		require.ErrorIs(t, <-served, ErrLabel)
	}
	a, _ := net.Pipe()
	_, err := NewTrunk(a, strings.Repeat("x", maxLabel+1))
	require.ErrorContains(t, err, "65 bytes")
}

// Peers that say nothing, something else, or not all of it.
func TestTrunkBadPeer(t *testing.T) {
	greeting := func(text string) []byte { return append(appendFrame(nil, frameHello, len(text)), text...) }
	good := greeting(trunkVersion + "kind")
	packet := func(size int) []byte { return append(appendFrame(nil, framePacket, size), make([]byte, size)...) }
	for name, said := range map[string][]byte{
		"nothing":           {},
		"HTTP":              []byte("GET / HTTP/1.1\r\n\r\n"),
		"half a hello":      good[:10],
		"another hello":     greeting("farwire trunk 2 kind"),
		"long hello":        greeting(trunkVersion + strings.Repeat("x", maxLabel+1)),
		"no hello":          appendFrame(nil, frameJoin, 0),
		"half a frame":      append(bytes.Clone(good), 5),
		"half a packet":     append(bytes.Clone(good), packet(100)[:50]...),
		"second hello":      append(bytes.Clone(good), good...),
		"frame of no kind":  append(bytes.Clone(good), 0, 0, 0, 0),
		"frame with a bit":  append(bytes.Clone(good), frameLeave, 1, 0, 0),
		"large frame":       append(bytes.Clone(good), framePacket, 0, 0xff, 0xff),
		"small packet":      append(bytes.Clone(good), packet(packetHead-1)...),
		"empty packet":      append(bytes.Clone(good), packet(packetHead)...),
		"odd packet":        append(bytes.Clone(good), packet(packetHead+minSize+1)...),
		"long packet":       append(bytes.Clone(good), packet(maxFrame)...),
		"short join":        append(append(bytes.Clone(good), appendFrame(nil, frameJoin, 4)...), 1, 2, 3, 4),
		"short question":    append(bytes.Clone(good), appendFrame(nil, frameHas, 0)...),
		"short leave":       append(bytes.Clone(good), appendFrame(nil, frameLeave, 0)...),
		"answer unasked":    append(append(bytes.Clone(good), appendFrame(nil, frameAnswer, 1)...), 0),
		"answer of nothing": append(bytes.Clone(good), appendFrame(nil, frameAnswer, 0)...),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSwitch()
			require.Error(t, s.Serve(t.Context(), &script{in: bytes.NewReader(said)}, "kind"))
			trunk, err := NewTrunk(&script{in: bytes.NewReader(said)}, "kind")
			if err == nil {
				<-trunk.Done()
				_, err = trunk.Join(bob, nil)
				require.NoError(t, trunk.Close())
			}
			require.Error(t, err)
		})
	}
}

// A peer may ask for addresses nobody has, leave what it has not, and send as who it is not.
func TestTrunkUnfoundedFrames(t *testing.T) {
	s := NewSwitch()
	_, atA := joined(t, s, alice)
	p := numbered(alice, 1, 4)
	p.stamp(bob)
	said := append(appendFrame(nil, frameHello, len(trunkVersion)+4), trunkVersion+"kind"...)
	said = appendPacket(said, p)
	p.Release()
	said = appendAddr(appendFrame(said, frameLeave, addrSize), alice)
	said = appendAddr(appendFrame(said, frameJoin, addrSize), netip.IPv4Unspecified())
	c := &script{in: bytes.NewReader(said)}
	require.NoError(t, s.Serve(t.Context(), c, "kind"))
	require.Empty(t, atA.got())
	require.True(t, s.Has(alice))
	require.Equal(t, byte(answerBadAddr), c.out.Bytes()[c.out.Len()-1])
}

// script is a connection whose peer has said everything in advance.
type script struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *script) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// A greeting that does not come is not waited for.
func TestTrunkSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		require.ErrorIs(t, NewSwitch().Serve(t.Context(), a, "kind"), os.ErrDeadlineExceeded)
		a, b = net.Pipe()
		defer b.Close()
		ctx, stop := context.WithCancel(t.Context())
		served := serve(ctx, NewSwitch(), a)
		synctest.Wait()
		start := time.Now()
		stop()
		require.NoError(t, <-served)
		require.LessOrEqual(t, time.Since(start), trunkPatience)
	})
}

// A peer that does not answer is given up; what it sent a link is checked.
func TestTrunkNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		defer theirs.Close()
		go func() {
			hello(t, theirs)
			_, _ = io.ReadFull(theirs, make([]byte, frameHead+addrSize))
			answer := append(appendFrame(nil, frameAnswer, 1), answerDone)
			for _, flip := range []byte{4, 0} {
				p := numbered(bob, 1, 4)
				p.stamp(alice)
				p.seal()
				p.Buf[10] ^= flip
				answer = appendPacket(answer, p)
				p.Release()
			}
			write(t, theirs, answer)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		trunk, err := NewTrunk(ours, "kind")
		require.NoError(t, err)
		b, atB := joined(t, trunk, bob)
		b.Flush()
		synctest.Wait()
		require.Equal(t, []uint32{1}, atB.got())
		require.EqualValues(t, 1, b.Counters().Dropped[DropICRC])
		start := time.Now()
		_, err = trunk.Join(carol, nil)
		require.ErrorContains(t, err, "ended")
		require.Equal(t, answerPatience, time.Since(start))
		require.NoError(t, trunk.Close())
	})
}

func FuzzTrunk(f *testing.F) {
	p := numbered(alice, 1, 4)
	p.stamp(bob)
	f.Add(appendPacket(nil, p))
	f.Add(addrFrame(frameJoin, bob))
	f.Add(addrFrame(frameHas, alice))
	f.Add(append(appendFrame(nil, frameAnswer, 1), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		said := append(appendFrame(nil, frameHello, len(trunkVersion)+4), trunkVersion+"kind"...)
		// The address that packets are from joins first.
		said = append(appendAddr(appendFrame(said, frameJoin, addrSize), bob), b...)
		s := NewSwitch()
		a, err := s.Join(alice, func(p *Packet) {
			require.LessOrEqual(t, len(p.Buf), MaxSize)
			require.Equal(t, alice, p.Dst)
			p.Release()
		})
		require.NoError(t, err)
		_ = s.Serve(t.Context(), &script{in: bytes.NewReader(said)}, "kind")
		require.False(t, s.Has(bob))
		require.NoError(t, a.Close())

		said = append(appendFrame(nil, frameHello, len(trunkVersion)+4), trunkVersion+"kind"...)
		trunk, err := NewTrunk(&script{in: bytes.NewReader(append(said, b...))}, "kind")
		require.NoError(t, err)
		l, err := trunk.Join(bob, (*Packet).Release)
		if err == nil {
			require.NoError(t, l.Close())
		}
		<-trunk.Done()
		require.NoError(t, trunk.Close())
	})
}

func FuzzTrunkPacket(f *testing.F) {
	p := numbered(alice, 1, 4)
	p.stamp(bob)
	p.seal()
	f.Add(appendPacket(nil, p)[frameHead:])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePacket(b)
		if err != nil {
			require.ErrorIs(t, err, ErrTrunk)
			return
		}
		again := appendPacket(nil, p)
		require.EqualValues(t, len(b), binary.BigEndian.Uint16(again[2:]))
		require.Equal(t, b[packetHead:], again[frameHead+packetHead:])
		p.Release()
	})
}
