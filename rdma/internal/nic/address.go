package nic

import (
	"errors"
	"fmt"
	"math"
	"net"

	"github.com/farwire/farwire/rdma/verbs"
)

// ErrNoGID is wrapped if the port has no global identifier that fits.
var ErrNoGID = errors.New("port has no fitting RoCE v2 GID")

// findAddress is the address that the PortConfig chooses among those of the port.
func (p *Port) findAddress(port verbs.PortAttr) (Address, error) {
	a := Address{
		LinkLayer: port.LinkLayer,
		MTU:       port.ActiveMTU,
		LID:       port.LID,
		Global:    port.GRHRequired || port.LinkLayer == verbs.LinkEthernet,
	}
	gids, err := p.GIDs()
	if !a.Global && errors.Is(err, errors.ErrUnsupported) {
		return a, nil // the LID is enough
	}
	if err != nil {
		return Address{}, err
	}
	entry, ok := p.config.choose(gids, port.LinkLayer)
	if !ok && !a.Global && p.config.anyGID() {
		return a, nil
	}
	if !ok {
		return Address{}, fmt.Errorf("port %d: %w", p.config.Number, ErrNoGID)
	}
	a.GID, a.GIDIndex = entry.GID, entry.Index
	return a, nil
}

func (c PortConfig) anyGID() bool {
	return c.GIDIndex == nil && !c.Addr.IsValid() && c.NetDev == ""
}

// choose is the best entry that the PortConfig allows. The kernel's commands have 8
// bits for its slot.
func (c PortConfig) choose(gids []verbs.GIDEntry, layer verbs.LinkLayer) (best verbs.GIDEntry, ok bool) {
	want := verbs.GIDTypeRoCEv2
	if layer == verbs.LinkInfiniBand {
		want = verbs.GIDTypeInfiniBand
	}
	for _, g := range gids {
		switch {
		case g.Type != want,
			g.Index > math.MaxUint8,
			c.GIDIndex != nil && g.Index != *c.GIDIndex,
			c.Addr.IsValid() && g.GID != verbs.GIDFrom(c.Addr),
			c.NetDev != "" && !isOn(g, c.NetDev):
			continue
		}
		if !ok || rank(g.GID) < rank(best.GID) || rank(g.GID) == rank(best.GID) && g.Index < best.Index {
			best, ok = g, true
		}
	}
	return best, ok
}

// isOn reports whether an entry is that of a network interface. The kernel's command
// tells the interface's index, sysfs its name; where neither is known it may be.
func isOn(g verbs.GIDEntry, netdev string) bool {
	if g.NetDev != "" || g.IfIndex == 0 {
		return g.NetDev == "" || g.NetDev == netdev
	}
	i, err := net.InterfaceByName(netdev)
	return err == nil && i.Index == g.IfIndex
}

// rank orders GIDs: IPv4, then global IPv6, then link-local.
func rank(g verbs.GID) int {
	switch {
	case g.IsV4():
		return 0
	case !g.Addr().IsLinkLocalUnicast():
		return 1
	}
	return 2
}
