package nic

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// A link-local address can be that of several interfaces, which the kernel's command tells
// by their indices and sysfs by their names.
func TestChooseByNetDev(t *testing.T) {
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	here := interfaces[0]
	addr := netip.MustParseAddr("fe80::1")
	entry := func(index int, netdev string, ifIndex int) verbs.GIDEntry {
		return verbs.GIDEntry{Index: index, GID: verbs.GIDFrom(addr), Type: verbs.GIDTypeRoCEv2, NetDev: netdev, IfIndex: ifIndex}
	}
	for name, gids := range map[string][]verbs.GIDEntry{
		"by index": {entry(1, "", here.Index+1000), entry(3, "", here.Index)},
		"by name":  {entry(1, here.Name+".7", 0), entry(3, here.Name, 0)},
		"untold":   {entry(1, here.Name+".7", here.Index), entry(3, "", 0)},
	} {
		c := PortConfig{Addr: addr}
		e, ok := c.choose(gids, verbs.LinkEthernet)
		require.True(t, ok, name)
		require.Equal(t, 1, e.Index, "%s: any interface", name)
		c.NetDev = here.Name
		e, ok = c.choose(gids, verbs.LinkEthernet)
		require.True(t, ok, name)
		require.Equal(t, 3, e.Index, name)
		require.False(t, c.anyGID())
	}
	_, ok := PortConfig{NetDev: "no such interface"}.choose([]verbs.GIDEntry{entry(1, "", here.Index), entry(2, here.Name, 0)}, verbs.LinkEthernet)
	require.False(t, ok)
}
