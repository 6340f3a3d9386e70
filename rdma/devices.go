package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// place says where a connection's queue pair is to be made.
type place struct {
	device string     // name of an RDMA device, or Soft
	port   uint8      // its port; 0 is the first
	addr   netip.Addr // what its GID must stand for; not valid: its best
	reason string     // why, for the log
}

// finder looks for devices below a root of /sys; "" is the system's.
type finder struct{ root string }

// find returns the place for a connection. name is the configured device or "".
func (f finder) find(name string, r route) (place, error) {
	switch {
	case name == Soft:
		return softPlace(r, "the configuration names it"), nil
	case name != "":
		return f.named(name, r)
	case r.inMachine():
		return softPlace(r, "both ends are on this machine"), nil
	}
	devices, err := verbs.Devices(f.root)
	if err != nil {
		return place{}, err
	}
	if p, ok := f.withAddress(devices, r.local); ok {
		return p, nil
	}
	return softPlace(r, fmt.Sprintf("no RDMA device has the address %v of the route to %v", r.local, r.remote)), nil
}

// softPlace is the software NIC that serves r.
func softPlace(r route, reason string) place {
	p := place{device: Soft, reason: reason}
	if !r.inMachine() {
		p.addr = r.local
	}
	return p
}

// named returns the place on the device that the configuration names: on the port with
// the local address if one has it, else on the first port.
func (f finder) named(name string, r route) (place, error) {
	devices, err := verbs.Devices(f.root)
	if err != nil {
		return place{}, err
	}
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		if d.Name != name {
			names = append(names, d.Name)
			continue
		}
		if d.Driver != verbs.DriverMLX5 && d.Driver != verbs.DriverUnknown {
			return place{}, fmt.Errorf("device %s: its driver is %v, and only mlx5 is supported", name, d.Driver)
		}
		if p, ok := f.withAddress([]verbs.Device{d}, r.local); ok {
			return p, nil
		}
		return place{device: name, reason: "the configuration names it"}, nil
	}
	return place{}, fmt.Errorf("device %s: %w; there are: %s", name, errNoDevice, cmp.Or(strings.Join(names, ", "), "none"))
}

var errNoDevice = errors.New("no such RDMA device")

// withAddress returns the place of the mlx5 port whose RoCE v2 GID is addr, or of the
// InfiniBand port whose IPoIB interface has addr.
func (f finder) withAddress(devices []verbs.Device, addr netip.Addr) (place, bool) {
	gid := verbs.GIDFrom(addr)
	for _, d := range devices {
		if d.Driver != verbs.DriverMLX5 {
			continue
		}
		for _, p := range d.Ports {
			for _, g := range p.GIDs {
				if p.LinkLayer == verbs.LinkEthernet && g.Type == verbs.GIDTypeRoCEv2 && g.GID == gid {
					return place{device: d.Name, port: p.Number, addr: addr, reason: "its GID is the route's address"}, true
				}
			}
			if p.LinkLayer == verbs.LinkInfiniBand && f.isIPoIB(interfaceOf(addr), d.Name, p.Number) {
				return place{device: d.Name, port: p.Number, reason: "its IPoIB interface has the route's address"}, true
			}
		}
	}
	return place{}, false
}

// isIPoIB reports whether a network interface is that of an InfiniBand port.
func (f finder) isIPoIB(netdev, device string, port uint8) bool {
	if netdev == "" {
		return false
	}
	dir := filepath.Join(f.root, "/sys/class/net", netdev)
	if _, err := os.Stat(filepath.Join(dir, "device/infiniband", device)); err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, "dev_port")) // counted from 0
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && n+1 == int(port)
}

// interfaceOf returns the name of the network interface that has addr, or "".
func interfaceOf(addr netip.Addr) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(addr.AsSlice()) {
				return i.Name
			}
		}
	}
	return ""
}
