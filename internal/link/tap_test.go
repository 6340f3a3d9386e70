package link

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// album keeps what a tap saw.
type album struct {
	mu   sync.Mutex
	seen []Seen
}

func (a *album) tap(s Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Buf = append([]byte(nil), s.Buf...)
	a.seen = append(a.seen, s)
}

func (a *album) taken() []Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Seen(nil), a.seen...)
}

func TestTap(t *testing.T) {
	s := NewSwitch()
	var seen album
	a, atA := tappedOn(t, s, &seen)
	atB := newInbox(t)
	b, err := s.Join(bob, atB.receive)
	require.NoError(t, err)
	defer b.Close()

	p := numbered(bob, 1, 5)
	p.TClass = 2
	a.Send(p)
	sendAll(b, a, 2, 3)
	sendAll(a, a, 3, 4)
	a.Send(a.Get(13)) // of a bad size
	require.Equal(t, numbers(1, 2), atB.got())
	require.Equal(t, numbers(2, 4), atA.got())

	got := seen.taken()
	require.Len(t, got, 3, "to itself: once")
	require.Equal(t, roce.Path{Src: alice, Dst: bob, SrcPort: roce.Port, DstPort: roce.Port}, got[0].Path)
	require.EqualValues(t, 2, got[0].TClass)
	require.Equal(t, bob, got[1].Src)
	require.Equal(t, alice, got[1].Dst)
	for i, g := range got {
		require.True(t, roce.CheckICRC(&g.Path, g.Buf))
		require.EqualValues(t, i+1, g.Buf[11], "PSN")
	}
}

func tappedOn(t *testing.T, s *Switch, seen *album) (Link, *inbox) {
	in := newInbox(t)
	l, err := Tap(func(r Receiver) (Link, error) { return s.Join(alice, r) }, seen.tap, in.receive)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, in
}

// A packet that was damaged on purpose is seen damaged, and stays so.
func TestTapSeesDamage(t *testing.T) {
	s := NewSwitch()
	var seen album
	a, err := Impair(func(r Receiver) (Link, error) {
		return Tap(func(r Receiver) (Link, error) { return s.Join(alice, r) }, seen.tap, r)
	}, Impairments{Corrupt: 1}, (*Packet).Release)
	require.NoError(t, err)
	defer a.Close()
	b, err := s.Join(bob, (*Packet).Release)
	require.NoError(t, err)
	defer b.Close()
	sendAll(a, b, 0, 1)
	got := seen.taken()
	require.Len(t, got, 1)
	require.False(t, roce.CheckICRC(&got[0].Path, got[0].Buf))
	require.Equal(t, uint64(1), b.Counters().Dropped[DropICRC])
}

// What a stranger sent over UDP is seen with the identification it had.
func TestTapUDP(t *testing.T) {
	var seen album
	in := newInbox(t)
	l, err := Tap(LoopbackUDP, seen.tap, in.receive)
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken on all addresses: ", err)
	}
	require.NoError(t, err)
	defer l.Close()
	s := newStranger(t, l)
	s.path.ID, s.path.MayFragment = 0x1234, true
	b := roce.AppendICRC(&s.path, numbered(l.Addr(), 1, 5).Buf)
	s.write(t, b)
	in.wait(1)
	require.Equal(t, []Seen{{Path: s.path, Buf: b}}, seen.taken())
}

func TestTapErrors(t *testing.T) {
	_, err := Tap(func(Receiver) (Link, error) { return nil, ErrAddr }, nil, nil)
	require.ErrorIs(t, err, ErrAddr)
}
