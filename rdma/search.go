package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// search looks at devices, one after the other, for a port that has the local address
// of a route.
type search struct {
	finder
	route    route
	hardware bool           // Soft-RoCE does not count
	looked   []verbs.Device // those that are usable
	found    []match
	refused  []Refusal
}

// match is a port that has the address.
type match struct {
	Choice
	active bool
}

// look adds the ports of a device to what was found or refused.
func (s *search) look(d *verbs.Device) {
	if !s.usable(d) {
		return
	}
	s.looked = append(s.looked, *d)
	for _, p := range d.Ports {
		c := Choice{Device: d.Name, Driver: d.Driver, Port: p.Number}
		why := "has an unknown link layer"
		switch p.LinkLayer {
		case verbs.LinkEthernet:
			c.Addr, c.Reason = s.route.local, "its GID is the route's address"
			c.NetDev, why = s.ethernet(p)
		case verbs.LinkInfiniBand:
			c.Reason = "its IPoIB interface has the route's address"
			why = s.infiniBand(d.Name, p.Number)
		}
		if why != "" {
			s.refuse(d.Name, p.Number, why)
			continue
		}
		s.found = append(s.found, match{c, p.State == verbs.PortActive})
	}
}

// usable reports whether a device is one to look at, and refuses it otherwise. A driver
// that sysfs does not tell is asked for.
func (s *search) usable(d *verbs.Device) bool {
	var err error
	if d.Driver == verbs.DriverUnknown && d.Module == "" && !d.Elsewhere {
		d.Driver, err = s.probe(*d)
	}
	switch {
	case d.Elsewhere:
		s.refuse(d.Name, 0, "belongs to another RDMA network namespace, or is being removed")
	case err != nil:
		s.refuse(d.Name, 0, "does not tell its driver: "+err.Error())
	case !slices.Contains(drivers, d.Driver):
		s.refuse(d.Name, 0, fmt.Sprintf("has the driver %s, and what is supported is %s", driverName(*d), supported()))
	case s.hardware && d.Driver == verbs.DriverRXE:
		s.refuse(d.Name, 0, "is Soft-RoCE, and hardware is asked for")
	case len(d.Ports) == 0:
		s.refuse(d.Name, 0, "has no ports")
	default:
		return true
	}
	return false
}

// driverName is the name of a device's driver, the kernel module's if it is not one that
// this module knows.
func driverName(d verbs.Device) string {
	if d.Driver == verbs.DriverUnknown && d.Module != "" {
		return d.Module
	}
	return d.Driver.String()
}

func supported() string {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = d.String()
	}
	return strings.Join(names, " or ")
}

// probeDriver asks the kernel for the driver of a device.
func probeDriver(d verbs.Device) (verbs.DriverID, error) {
	file, err := d.Open()
	if err != nil {
		return verbs.DriverUnknown, err
	}
	id, err := verbs.ProbeDriver(file, drivers...)
	return id, errors.Join(err, file.Close())
}

// best is the match to use, if there is one: that of the earliest driver, an active port
// before one that is not, and of several the first. The others are refused.
func (s *search) best() (Choice, bool) {
	if len(s.found) == 0 {
		return Choice{}, false
	}
	slices.SortStableFunc(s.found, func(a, b match) int {
		return cmp.Or(
			cmp.Compare(slices.Index(drivers, a.Driver), slices.Index(drivers, b.Driver)),
			falseFirst(!a.active, !b.active))
	})
	best := s.found[0].Choice
	for _, m := range s.found[1:] {
		s.refuse(m.Device, m.Port, fmt.Sprintf("has the address too, but %s port %d goes first", best.Device, best.Port))
	}
	best.Refused = s.refused
	return best, true
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// anyPort is the choice if no port has the address of the route, and yet one must be used,
// for the configuration names the device: an active port first, then an address of the
// route's family, then one that is not link-local, and of several the first.
func (s *search) anyPort() (best Choice, ok bool) {
	const reason = "the configuration names it, and it has no port with the route's address"
	bestRank := 0
	consider := func(d verbs.Device, p verbs.Port, c Choice, rank int) {
		if p.State != verbs.PortActive {
			rank += inactive
		}
		if !ok || rank < bestRank {
			c.Device, c.Driver, c.Port, c.Reason = d.Name, d.Driver, p.Number, reason
			best, bestRank, ok = c, rank, true
		}
	}
	for _, d := range s.looked {
		for _, p := range d.Ports {
			if p.LinkLayer == verbs.LinkInfiniBand {
				consider(d, p, Choice{}, 0)
				continue
			}
			for _, e := range p.GIDs {
				if s.unfit(e) == "" {
					consider(d, p, Choice{Addr: e.GID.Addr(), NetDev: e.NetDev}, s.rank(e.GID))
				}
			}
		}
	}
	best.Refused = s.refused
	return best, ok
}

// inactive is more than any rank of a GID.
const inactive = 100

// rank orders GIDs that are not the route's address.
func (s *search) rank(g verbs.GID) (rank int) {
	if g.IsV4() != s.route.local.Is4() {
		rank += 2 // the peer's will be of the route's family, and these do not mix
	}
	if g.Addr().IsLinkLocalUnicast() {
		rank++
	}
	return rank
}

func (s *search) refuse(device string, port uint8, reason string) {
	s.refused = append(s.refused, Refusal{device, port, reason})
}

func (s *search) failure(name string, err error) error {
	return &DeviceError{Device: name, Local: s.route.local, Remote: s.route.remote, Refused: s.refused, Err: err}
}
