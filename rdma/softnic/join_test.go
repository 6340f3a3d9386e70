package softnic

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// joinedNetwork is a network that joined another, until the test has ended.
func joinedNetwork(t *testing.T, to *Network) *Network {
	ours, theirs := net.Pipe()
	return joinedOver(t, to, ours, theirs)
}

// joinedOver is joinedNetwork over a connection.
func joinedOver(t *testing.T, to *Network, ours, theirs net.Conn) *Network {
	served := make(chan error, 1)
	go func() { served <- to.Serve(t.Context(), ours, "kind") }()
	n, err := JoinNetwork(theirs, "kind")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Close())
		<-n.Done()
		require.NoError(t, <-served)
	})
	return n
}

// NICs on a network and on one that joined it have LIDs and addresses of one network,
// and messages between them arrive.
func TestJoinNetwork(t *testing.T) {
	for _, layer := range []verbs.LinkLayer{verbs.LinkEthernet, verbs.LinkInfiniBand} {
		network := NewNetwork()
		require.Nil(t, network.Done())
		require.NoError(t, network.Close())
		joined := joinedNetwork(t, network)
		na := newTestNIC(t, Config{LinkLayer: layer, Network: network, Link: LinkMemory})
		nb := newTestNIC(t, Config{LinkLayer: layer, Network: joined})
		nc := newTestNIC(t, Config{LinkLayer: layer, Network: joined})
		require.False(t, nb.UDP())
		for _, peers := range [][2]*NIC{{na, nb}, {nb, na}, {nb, nc}} {
			if layer == verbs.LinkInfiniBand {
				require.NotEqual(t, peers[0].LID(), peers[1].LID())
			} else {
				require.NotEqual(t, peers[0].Addr(), peers[1].Addr())
				require.True(t, peers[0].network.has(peers[1].Addr()))
			}
			p := connectRaw(t, peers[0], peers[1])
			p.exchange(t)
		}
	}
}

// slow is a connection whose writer can be held up.
type slow struct {
	net.Conn
	hold   atomic.Bool
	writes chan struct{} // has one when a writer is held up
	goOn   chan struct{}
}

func (s *slow) Write(b []byte) (int, error) {
	if s.hold.Load() {
		s.writes <- struct{}{}
		<-s.goOn
	}
	return s.Conn.Write(b)
}

// While the other process takes its time to say who is on the network, the NIC works.
func TestJoinedNetworkIsAskedUnlocked(t *testing.T) {
	network := NewNetwork()
	ours, theirs := net.Pipe()
	held := &slow{Conn: ours, writes: make(chan struct{}, 1), goOn: make(chan struct{})}
	na := newTestNIC(t, Config{Network: network, Link: LinkMemory})
	nb := newTestNIC(t, Config{Network: joinedOver(t, network, held, theirs)})
	p := unconnectedRaw(t, na, nb)
	held.hold.Store(true)
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		p.qb.connect(p.qa)
	}()
	<-held.writes // the answer
	held.hold.Store(false)
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		_ = nb.Counters()
	}()
	select {
	case <-locked:
	case <-time.After(15 * time.Second):
		t.Error("the NIC is locked")
	}
	close(held.goOn)
	<-connected
	<-locked
	p.qa.connect(p.qb)
	p.exchange(t)
}

func TestJoinNetworkErrors(t *testing.T) {
	network := NewNetwork()
	joined := joinedNetwork(t, network)
	a, b := net.Pipe()
	require.ErrorIs(t, joined.Serve(t.Context(), a, "kind"), ErrJoined)
	_, err := JoinNetwork(b, "kind")
	require.Error(t, err, "closed")
	_, err = New(&Config{Network: joined, Link: LinkUDP})
	require.ErrorIs(t, err, ErrJoined)
	nic := newTestNIC(t, Config{Network: network, Link: LinkMemory})
	_, err = New(&Config{Network: joined, Addr: nic.Addr()})
	require.ErrorContains(t, err, "address in use")

	a, _ = net.Pipe()
	require.ErrorContains(t, network.Serve(t.Context(), a, strings.Repeat("x", 65)), "65 bytes")
}
