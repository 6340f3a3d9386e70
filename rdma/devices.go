package rdma

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// finder chooses devices.
type finder struct {
	root  string                                     // of /sys and /dev; "" is the system's
	host  host                                       // nil is the one this process runs on
	probe func(verbs.Device) (verbs.DriverID, error) // nil asks the kernel
	known *listing                                   // nil: sysfs is read each time
}

func (f finder) withDefaults() finder {
	if f.host == nil {
		f.host = thisHost{}
	}
	if f.probe == nil {
		f.probe = probeDriver
	}
	return f
}

// find returns the choice for a connection. name is the configured device or "".
func (f finder) find(name string, r route) (Choice, error) {
	f = f.withDefaults()
	own := (name == "" || name == Soft) && r.inMachine(f.host)
	switch {
	case name == Soft && own:
		return Choice{Device: Soft, Reason: "the configuration names it"}, nil
	case name == Soft:
		return Choice{Device: Soft, Addr: r.local, Reason: "the configuration names it"}, nil
	case own:
		return Choice{Device: Soft, Reason: "both ends are on this machine"}, nil
	}
	// What was read a moment ago is good enough for a device that has the address; that
	// none has it must be true now.
	if all := f.known.recent(); all != nil {
		if devices, err := named(name, all); err == nil {
			if c, ok := f.search(name, r, devices).best(); ok {
				return c, nil
			}
		}
	}
	devices, err := f.devices(name)
	if err != nil {
		return Choice{}, err
	}
	s := f.search(name, r, devices)
	if c, ok := s.best(); ok {
		return c, nil
	}
	none := fmt.Errorf("no RDMA device has %v, the local address of the route to %v", r.local.WithZone(r.netdev), r.remote)
	if len(devices) == 0 {
		none = errNoDevices
	}
	switch name {
	case "":
		return Choice{Device: Soft, Addr: r.local, Reason: none.Error(), Refused: s.refused}, nil
	case Hardware:
		return Choice{}, s.failure(name, none)
	}
	if c, ok := s.anyPort(); ok {
		return c, nil
	}
	return Choice{}, s.failure(name, errNoPort)
}

// search looks at devices for the address of a route.
func (f finder) search(name string, r route, devices []verbs.Device) *search {
	s := &search{finder: f, route: r, hardware: name == Hardware}
	for i := range devices {
		s.look(&devices[i])
	}
	return s
}

// devices lists the RDMA devices that may be used: the one of that name, or all.
func (f finder) devices(name string) ([]verbs.Device, error) {
	all, err := verbs.Devices(f.root)
	if err != nil {
		return nil, err
	}
	f.known.remember(all)
	return named(name, all)
}

// named returns the device of a name, or all for no name and for that of any hardware.
func named(name string, devices []verbs.Device) ([]verbs.Device, error) {
	switch {
	case name == "":
		return devices, nil
	case name == Hardware && len(devices) == 0:
		return nil, &DeviceError{Device: name, Err: errNoDevices}
	case name == Hardware:
		return devices, nil
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		if d.Name == name {
			return devices[i : i+1], nil
		}
		names[i] = d.Name
	}
	there := cmp.Or(strings.Join(names, ", "), "none")
	return nil, &DeviceError{Device: name, Err: fmt.Errorf("%w; there are: %s", errNoDevice, there)}
}

// check reports whether the configured device, unless it is the software NIC, is there
// and of a driver that is supported. Its ports may have no address yet.
func (f finder) check(name string) error {
	if name == "" || name == Soft {
		return nil
	}
	devices, err := f.devices(name)
	if err != nil {
		return err
	}
	s := search{finder: f.withDefaults(), hardware: name == Hardware}
	for i := range devices {
		if s.usable(&devices[i]) {
			return nil
		}
	}
	return s.failure(name, errNoPort)
}
