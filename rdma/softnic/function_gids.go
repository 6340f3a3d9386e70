package softnic

import (
	"slices"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// FunctionGIDs is the size of the GID table of a port that is unaddressed.
const FunctionGIDs = 32

// SetGID puts a RoCE v2 address into a slot of the GID table of a port that is
// unaddressed: from then on the port sends from it and hears what is sent to it. It
// takes the place of what was there; the zero GID leaves the slot empty. An address that
// another port of the network has is refused.
func (p *Function) SetGID(slot int, g verbs.GID) error {
	n := p.f.nic
	switch {
	case !n.cfg.Unaddressed:
		return refuse(einval, "the port has addresses of its own")
	case slot < 0 || slot >= len(n.gids):
		return refuse(einval, "GID slot %d of %d", slot, len(n.gids))
	}
	p.gids.Lock()
	defer p.gids.Unlock()
	if err := p.clearGID(slot); err != nil || g.IsZero() {
		return err
	}
	// Links open and close without the lock: they wait for packets on their way.
	var imp link.Impairments
	_ = p.do(func(n *NIC) error { imp = n.nextImpairments(); return nil })
	l, err := link.Impair(n.tapped(func(r link.Receiver) (link.Link, error) { return n.network.join(g.Addr(), r) }), imp, n.deliver)
	if err != nil {
		return refuse(einval, "GID %v: %v", g, err)
	}
	err = p.do(func(n *NIC) error {
		n.gids[slot] = gid{gid: g, kind: uapi.GIDTypeRoCEv2, link: l}
		n.links = append(n.links, l)
		return nil
	})
	if err != nil {
		_ = l.Close()
	}
	return err
}

// clearGID empties a slot. What its queue pairs send then is lost.
func (p *Function) clearGID(slot int) error {
	n := p.f.nic
	n.lock()
	was := n.gids[slot].link
	n.gids[slot] = gid{}
	n.links = slices.DeleteFunc(n.links, func(l *link.Impaired) bool { return link.Link(l) == was })
	n.unlock()
	if was == nil {
		return nil
	}
	return was.Close()
}

// MAC is the address of an Ethernet port on its link.
func (p *Function) MAC() (mac [6]byte) {
	g := p.f.nic.guid
	copy(mac[:3], g[:3])
	copy(mac[3:], g[5:])
	return mac
}
