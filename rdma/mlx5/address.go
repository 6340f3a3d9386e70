package mlx5

import (
	"errors"
	"fmt"
	"math"

	"github.com/farwire/farwire/rdma/verbs"
)

// findAddress is the address that the Config chooses among those of the port.
func (n *NIC) findAddress(port verbs.PortAttr) (Address, error) {
	a := Address{
		LinkLayer: port.LinkLayer,
		MTU:       port.ActiveMTU,
		LID:       port.LID,
		Global:    port.GRHRequired || port.LinkLayer == verbs.LinkEthernet,
	}
	gids, err := n.GIDs()
	if !a.Global && errors.Is(err, errors.ErrUnsupported) {
		return a, nil // the LID is enough
	}
	if err != nil {
		return Address{}, err
	}
	entry, ok := n.config.choose(gids, port.LinkLayer)
	if !ok && !a.Global && n.config.anyGID() {
		return a, nil
	}
	if !ok {
		return Address{}, fmt.Errorf("port %d: %w", n.config.Port, ErrNoGID)
	}
	a.GID, a.GIDIndex = entry.GID, entry.Index
	return a, nil
}

func (c Config) anyGID() bool { return c.GIDIndex == nil && !c.Addr.IsValid() }

// choose is the best entry that the Config allows. The kernel's commands have 8
// bits for its slot.
func (c Config) choose(gids []verbs.GIDEntry, layer verbs.LinkLayer) (best verbs.GIDEntry, ok bool) {
	want := verbs.GIDTypeRoCEv2
	if layer == verbs.LinkInfiniBand {
		want = verbs.GIDTypeInfiniBand
	}
	for _, g := range gids {
		switch {
		case g.Type != want,
			g.Index > math.MaxUint8,
			c.GIDIndex != nil && g.Index != *c.GIDIndex,
			c.Addr.IsValid() && g.GID != verbs.GIDFrom(c.Addr):
			continue
		}
		if !ok || rank(g.GID) < rank(best.GID) || rank(g.GID) == rank(best.GID) && g.Index < best.Index {
			best, ok = g, true
		}
	}
	return best, ok
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
