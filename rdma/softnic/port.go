package softnic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// The NIC has one port.
const portNumber = 1

// GIDSlots is the size of a port's GID table, in which the first slots are used.
const GIDSlots = 8

// gid is an entry of the GID table; link is nil where this NIC does not send
// such packets (RoCE v1).
type gid struct {
	gid  verbs.GID
	kind uint32 // uapi.GIDTypeIB, ...
	link link.Link
}

// plugIn joins the networks and fills the GID table.
func (n *NIC) plugIn() error {
	switch {
	case n.cfg.LinkLayer == verbs.LinkInfiniBand:
		return n.plugInInfiniBand()
	case n.cfg.Unaddressed:
		n.guid = randomGUID()
		n.gids, n.mtu = make([]gid, FunctionGIDs), verbs.MTU4096
		return nil
	}
	return n.plugInEthernet()
}

// plugInInfiniBand takes a LID; the one GID is the default one, made of the GUID.
func (n *NIC) plugInInfiniBand() error {
	l, err := n.takeLID(maxLID)
	if err != nil {
		return err
	}
	n.setGUID(l.Addr())
	n.gids = []gid{{gid: n.linkLocal(), kind: uapi.GIDTypeIB, link: l}}
	n.mtu = verbs.MTU4096
	return nil
}

// takeLID takes the smallest LID that nobody on the network has, up to the last.
func (n *NIC) takeLID(last uint16) (l link.Link, err error) {
	for lid := uint16(1); lid <= last; lid++ {
		if l, err = n.join(lidAddr(lid)); err == nil {
			n.lid = lid
			return l, nil
		}
		if !errors.Is(err, link.ErrAddrInUse) {
			return nil, err
		}
	}
	return nil, errNoLID
}

// plugInEthernet takes the port's address and its link-local one. Each is in the
// table twice, once for each version of RoCE, as in the kernel's, or once.
func (n *NIC) plugInEthernet() error {
	main, err := n.openMain()
	if err != nil {
		return err
	}
	n.setGUID(main.Addr())
	local, err := n.join(n.linkLocal().Addr())
	if err != nil {
		return err
	}
	n.mtu = verbs.MTUFrom(main.MTU())
	for _, l := range []link.Link{local, main} {
		g := verbs.GIDFrom(l.Addr())
		if !n.cfg.RoCEv2Only {
			n.gids = append(n.gids, gid{gid: g, kind: uapi.GIDTypeRoCEv1})
		}
		n.gids = append(n.gids, gid{gid: g, kind: uapi.GIDTypeRoCEv2, link: l})
	}
	return nil
}

// openMain opens the link of the port's address.
func (n *NIC) openMain() (link.Link, error) {
	if n.network.trunk != nil && n.cfg.Link == LinkUDP {
		return nil, fmt.Errorf("UDP link: %w", ErrJoined)
	}
	if n.network.trunk == nil && n.cfg.Link != LinkMemory {
		l, err := n.openRouted()
		if err == nil || n.cfg.Link == LinkUDP {
			n.udp = err == nil
			return l, err
		}
		n.warn("no UDP link", "error", err)
	}
	if n.cfg.Addr.IsValid() {
		return n.join(n.cfg.Addr)
	}
	for {
		l, err := n.join(randomLoopback())
		if !errors.Is(err, link.ErrAddrInUse) {
			return l, err
		}
	}
}

// openRouted opens a link on the in-memory network and UDP at once.
func (n *NIC) openRouted() (link.Link, error) {
	udp := func(r link.Receiver) (l link.Link, err error) {
		if n.cfg.Addr.IsValid() {
			l, err = link.UDP(n.cfg.Addr, r)
		} else {
			l, err = link.LoopbackUDP(r)
		}
		if b, ok := l.(link.Bursty); ok {
			b.Around(n.takeBurst)
		}
		return l, err
	}
	wire := udp
	if !n.cfg.NoSharedMemory {
		wire = func(r link.Receiver) (link.Link, error) { return n.share(udp, r) }
	}
	l, err := n.impair(func(r link.Receiver) (link.Link, error) {
		return link.Route(n.network.links, wire, r)
	})
	if err == nil {
		n.main = n.links[len(n.links)-1]
	}
	return l, err
}

// join opens a link on the in-memory network alone.
func (n *NIC) join(addr netip.Addr) (link.Link, error) {
	return n.impair(func(r link.Receiver) (link.Link, error) { return n.network.join(addr, r) })
}

// impair opens a link that spoils packets as the faults say, and keeps it.
func (n *NIC) impair(open func(link.Receiver) (link.Link, error)) (link.Link, error) {
	l, err := link.Impair(n.tapped(open), n.nextImpairments(), n.deliver)
	if err != nil {
		return nil, err
	}
	n.links = append(n.links, l)
	return l, nil
}

// nextImpairments are those of one more link.
func (n *NIC) nextImpairments() link.Impairments {
	return n.faults.impairments(n.cfg.Seed + uint64(len(n.links)))
}

func (f Faults) impairments(seed uint64) link.Impairments {
	return link.Impairments{
		Seed: seed, Loss: f.Loss, Duplicate: f.Duplicate, Reorder: f.Reorder, Corrupt: f.Corrupt, Mark: f.Mark,
		Rate: f.Rate, Delay: f.Delay, Jitter: f.Jitter,
	}
}

// unplug leaves the networks. When it returns no packet comes any more.
func (n *NIC) unplug() error {
	var errs []error
	for _, l := range n.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// setGUID derives the node GUID from the port's address, which is unique on its
// network.
func (n *NIC) setGUID(addr netip.Addr) {
	n.guid = guidOf(addr)
}

func guidOf(addr netip.Addr) (guid [8]byte) {
	a := addr.As16()
	h := fnv.New64a()
	h.Write(a[:])
	h.Sum(guid[:0])
	return ownGUID(guid)
}

// ownGUID is a GUID of the vendor's, locally administered.
func ownGUID(guid [8]byte) [8]byte {
	guid[0], guid[1] = 0x9a, 0x03
	return guid
}

// randomGUID is the GUID of a port without an address to make one of. It is that of a
// MAC (EUI-64), as the kernel makes the port's default GID of its interface's.
func randomGUID() (guid [8]byte) {
	binary.BigEndian.PutUint64(guid[:], rand.Uint64())
	guid[3], guid[4] = 0xff, 0xfe
	return ownGUID(guid)
}

// linkLocal is the default GID: the link-local prefix and the GUID.
func (n *NIC) linkLocal() verbs.GID { return linkLocalOf(n.guid) }

func linkLocalOf(guid [8]byte) (g verbs.GID) {
	g[0], g[1] = 0xfe, 0x80
	copy(g[8:], guid[:])
	return g
}

// macOf is the MAC that the holder of an address has, as far as anybody asks.
func macOf(addr netip.Addr) [6]byte {
	g := guidOf(addr)
	return [6]byte{g[0], g[1], g[4], g[5], g[6], g[7]}
}

// portAttributes is the response of QUERY_PORT.
func (n *NIC) portAttributes() uapi.QueryPortResp {
	r := uapi.QueryPortResp{
		MaxMsgSz:    maxMessage,
		GidTblLen:   GIDSlots,
		PkeyTblLen:  1,
		State:       1, // DOWN
		PhysState:   3, // Disabled
		MaxMTU:      uint8(verbs.MTU4096),
		ActiveMTU:   uint8(n.mtu),
		MaxVlNum:    1,
		ActiveWidth: 2,  // 4X
		ActiveSpeed: 32, // EDR
		LinkLayer:   uint8(n.cfg.LinkLayer),
	}
	if n.portUp {
		r.State, r.PhysState = 4, 5 // ACTIVE, LinkUp
	}
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		r.PortCapFlags = 0x2651e848
		r.Lid, r.SmLid = n.lid, 1
	} else {
		r.PortCapFlags = uapi.PortIPBasedGIDs | 1<<16 // and IB_PORT_CM_SUP
		r.Flags = uapi.PortGRHRequired
	}
	return r
}

// gidEntry is the kernel's record of a slot; ok is false if it is empty.
func (n *NIC) gidEntry(i uint64) (e uapi.GIDEntry, ok bool) {
	if i >= uint64(len(n.gids)) || n.gids[i].gid.IsZero() {
		return e, false
	}
	g := n.gids[i]
	return uapi.GIDEntry{GID: g.gid, GIDIndex: uint32(i), PortNum: portNumber, GIDType: g.kind}, true
}

// checkAddr refuses addresses a port cannot have.
func checkAddr(c *Config) error {
	a := c.Addr
	switch {
	case !a.IsValid():
		return nil
	case c.LinkLayer == verbs.LinkInfiniBand:
		return fmt.Errorf("address %v on an InfiniBand port, which has a LID", a)
	case a.Zone() != "" || a.IsMulticast() || a.IsUnspecified():
		return fmt.Errorf("address %v is not a unicast address without zone", a)
	case c.Link == LinkUDP && a.Is6() && a.IsLinkLocalUnicast():
		return fmt.Errorf("address %v is link-local: GIDs have no zone, so UDP cannot tell its network", a)
	}
	return nil
}

// flowPort is the UDP source port of a flow, as the kernel derives it from the
// flow label or, without one, from the two queue pair numbers.
func flowPort(label, local, remote uint32) uint16 {
	if label == 0 {
		v := uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
		label = uint32(v) & 0xfffff
	}
	return uint16(label&0x3fff^label>>14&0x3f) | 0xc000
}
