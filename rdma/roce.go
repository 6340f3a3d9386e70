package rdma

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// ethernet returns the network interface of the port's GID for the local address of the
// route, or why the port has none that can be used. Both are "" if it has one whose
// interface the kernel does not tell.
func (s *search) ethernet(p verbs.Port) (netdev, why string) {
	var v1, whys []string
	for _, e := range p.GIDs {
		if e.GID != verbs.GIDFrom(s.route.local) {
			continue
		}
		switch why := cmp.Or(s.unfit(e), s.elsewhere(e)); {
		case why == "":
			return e.NetDev, ""
		case e.Type == verbs.GIDTypeRoCEv1:
			v1 = append(v1, why)
		default:
			whys = append(whys, why)
		}
	}
	if len(whys) == 0 {
		whys = v1 // most addresses are there in both versions
	}
	if len(whys) > 0 {
		return "", "has the address " + strings.Join(whys, ", ")
	}
	return "", s.others(p)
}

// unfit says what keeps a GID from being used at all.
func (s *search) unfit(e verbs.GIDEntry) string {
	switch {
	case e.Type != verbs.GIDTypeRoCEv2:
		return fmt.Sprintf("as %v (index %d)", e.Type, e.Index)
	case e.Index > math.MaxUint8: // the kernel's commands have 8 bits for it
		return fmt.Sprintf("at index %d, beyond the 255 that can be used", e.Index)
	case e.NetDev == "":
		return ""
	}
	if _, ok := s.host.addrs(e.NetDev); !ok {
		return fmt.Sprintf("on %s (index %d), which is in another network namespace", e.NetDev, e.Index)
	}
	return ""
}

// elsewhere says what makes a GID that reads as the route's address another's.
func (s *search) elsewhere(e verbs.GIDEntry) string {
	if e.NetDev == "" {
		return ""
	}
	if s.route.netdev != "" && s.route.netdev != e.NetDev {
		return fmt.Sprintf("on %s (index %d) while the route goes by %s", e.NetDev, e.Index, s.route.netdev)
	}
	if addrs, _ := s.host.addrs(e.NetDev); !slices.Contains(addrs, s.route.local) {
		return fmt.Sprintf("on the %s of another network namespace (index %d)", e.NetDev, e.Index)
	}
	return ""
}

// mostNamed is how many of a port's other addresses a refusal names.
const mostNamed = 6

// others says what a port has instead of the route's address.
func (s *search) others(p verbs.Port) string {
	var names, netdevs []string
	for _, e := range p.GIDs {
		if e.Type != verbs.GIDTypeRoCEv2 {
			continue
		}
		names = append(names, onNetDev(e.GID.String(), e.NetDev))
		if e.NetDev != "" && !slices.Contains(netdevs, e.NetDev) {
			netdevs = append(netdevs, e.NetDev)
		}
	}
	for _, n := range netdevs {
		if addrs, _ := s.host.addrs(n); slices.Contains(addrs, s.route.local) {
			return fmt.Sprintf("has not got the address in its GID table, although its interface %s has it", n)
		}
	}
	text := "has no RoCE v2 GID"
	if len(names) > 0 {
		more := ""
		if len(names) > mostNamed {
			more = fmt.Sprintf(" and %d more", len(names)-mostNamed)
			names = names[:mostNamed]
		}
		text = "has " + strings.Join(names, ", ") + more + " instead"
	}
	if n := len(p.Unreadable); n > 0 {
		text += fmt.Sprintf(", and %d GIDs of unknown type", n)
	}
	if p.State != verbs.PortActive {
		text += fmt.Sprintf(" (the port is %v)", p.State)
	}
	return text
}

func onNetDev(addr, netdev string) string {
	if netdev == "" {
		return addr
	}
	return addr + " on " + netdev
}
