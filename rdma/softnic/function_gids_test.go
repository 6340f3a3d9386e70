package softnic_test

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func address(s string) verbs.GID { return verbs.GIDFrom(netip.MustParseAddr(s)) }

// A port without addresses has those that its function gives it, until it closes.
func TestFunctionGIDs(t *testing.T) {
	network := softnic.NewNetwork()
	soft := newNIC(t, softnic.Config{Unaddressed: true, Network: network, Link: softnic.LinkMemory})
	other := newNIC(t, softnic.Config{Network: network, Link: softnic.LinkMemory, Addr: netip.MustParseAddr("10.0.0.2")})
	require.Empty(t, soft.GIDs())
	require.Zero(t, soft.GID())
	require.False(t, soft.Addr().IsValid())

	f := openFunction(t, soft)
	mac := f.MAC()
	require.Equal(t, byte(2), mac[0]&3, "of one port, locally administered")
	require.NoError(t, f.SetGID(3, address("10.0.0.1")))
	require.NoError(t, f.SetGID(3, address("fd00::1")), "in place of the other")
	require.NoError(t, f.SetGID(0, address("10.0.0.1")), "which is free again")
	require.Equal(t, []verbs.GIDEntry{{Index: 0, GID: address("10.0.0.1"), Type: verbs.GIDTypeRoCEv2},
		{Index: 3, GID: address("fd00::1"), Type: verbs.GIDTypeRoCEv2}}, soft.GIDs())
	for name, err := range map[string]error{
		"slot":      f.SetGID(softnic.FunctionGIDs, address("10.0.0.3")),
		"no slot":   f.SetGID(-1, address("10.0.0.3")),
		"another's": f.SetGID(1, address("10.0.0.2")),
		"multicast": f.SetGID(1, address("ff02::1")),
	} {
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
	require.NoError(t, f.Close())
	require.Empty(t, soft.GIDs())

	f = openFunction(t, other)
	require.ErrorIs(t, f.SetGID(1, address("10.0.0.9")), syscall.EINVAL, "it has an address of its own")
	require.NoError(t, f.Close())
	require.Len(t, other.GIDs(), 4, "which stays")

	for _, bad := range []softnic.Config{{LinkLayer: verbs.LinkInfiniBand}, {Addr: netip.MustParseAddr("10.0.0.4")}, {Link: softnic.LinkUDP}} {
		bad.Unaddressed = true
		_, err := softnic.New(&bad)
		require.ErrorContains(t, err, "without addresses")
	}
}
