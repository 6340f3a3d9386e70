package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// Where packets need a global header, a peer on InfiniBand must have a GID too.
func TestAcceptsGlobalPeer(t *testing.T) {
	p := &Pair{Port: &Port{}, Address: Address{LinkLayer: verbs.LinkInfiniBand, Global: true, GIDIndex: 2}}
	peer := verbs.Endpoint{QPN: 5, LinkLayer: verbs.LinkInfiniBand, LID: 7, MTU: verbs.MTU1024}
	require.ErrorIs(t, p.accepts(peer), verbs.ErrInvalidEndpoint)
	peer.GID[0] = 0xfe
	require.NoError(t, p.accepts(peer))
	require.Equal(t, verbs.Path{GID: peer.GID, LID: 7, Global: true, SGIDIndex: 2, HopLimit: 64}, p.path(peer))
}
