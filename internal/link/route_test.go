package link

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// twoNetworks is a link on two switches, of which one plays the wire.
func twoNetworks(t *testing.T) (l Link, in *inbox, memory, wire *Switch) {
	memory, wire = NewSwitch(), NewSwitch()
	in = newInbox(t)
	l, err := Route(memory, func(r Receiver) (Link, error) { return wire.Join(alice, r) }, in.receive)
	require.NoError(t, err)
	return l, in, memory, wire
}

func TestRoute(t *testing.T) {
	l, in, memory, wire := twoNetworks(t)
	far, atFar := netip.MustParseAddr("10.7.0.3"), newInbox(t)
	remote, err := wire.Join(far, atFar.receive)
	require.NoError(t, err)
	atBob := newInbox(t)
	local, err := memory.Join(bob, atBob.receive)
	require.NoError(t, err)
	// The wire has another bob, who must hear nothing.
	other, err := wire.Join(bob, func(*Packet) { t.Error("went by the wire") })
	require.NoError(t, err)

	require.Equal(t, alice, l.Addr())
	require.Equal(t, 4096, l.MTU())
	p := l.Get(0)
	p.Release()
	l.Send(numbered(bob, 1, 4))
	l.Send(numbered(netip.AddrFrom16(bob.As16()), 2, 4))
	l.Send(numbered(far, 3, 4))
	l.Send(numbered(alice, 4, 4))
	l.Flush()
	local.Send(numbered(alice, 5, 4))
	remote.Send(numbered(alice, 6, 4))
	l.Send(numbered(netip.MustParseAddr("10.7.0.4"), 7, 4))
	require.Equal(t, []uint32{1, 2}, atBob.got())
	require.Equal(t, []uint32{3}, atFar.got())
	require.Equal(t, []uint32{4, 5, 6}, in.got())

	c := l.Counters()
	require.Equal(t, uint64(4), c.Sent)
	require.Equal(t, uint64(3), c.Received)
	require.Equal(t, uint64(1), c.Dropped[DropUnknown])

	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.False(t, memory.Has(alice))
	require.False(t, wire.Has(alice))
	for _, l := range []Link{remote, local, other} {
		require.NoError(t, l.Close())
	}
}

func TestRouteErrors(t *testing.T) {
	failure := errors.New("no wire")
	_, err := Route(NewSwitch(), func(Receiver) (Link, error) { return nil, failure }, nil)
	require.ErrorIs(t, err, failure)

	memory, wire := NewSwitch(), NewSwitch()
	taken, err := memory.Join(alice, nil)
	require.NoError(t, err)
	defer taken.Close()
	l, err := Route(memory, func(r Receiver) (Link, error) { return wire.Join(alice, r) }, nil)
	require.ErrorIs(t, err, ErrAddrInUse)
	require.Nil(t, l)
	require.False(t, wire.Has(alice), "the wire's link is closed again")
}

// With a UDP wire, as a software NIC uses it.
func TestRouteOverUDP(t *testing.T) {
	far, atFar := loopback(t)
	memory := NewSwitch()
	in := newInbox(t)
	l, err := Route(memory, LoopbackUDP, in.receive)
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken: ", err)
	}
	require.NoError(t, err)
	defer l.Close()
	send(l, numbered(far.Addr(), 1, 4))
	l.Send(numbered(l.Addr(), 2, 4))
	require.Equal(t, []uint32{2}, in.got(), "in memory, at once")
	require.Equal(t, []uint32{1}, atFar.wait(1))
	send(far, numbered(l.Addr(), 3, 4))
	require.Equal(t, []uint32{2, 3}, in.wait(2))
}
