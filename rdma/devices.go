package rdma

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// drivers are those that this package has a data path for; devices of earlier ones go
// first.
var drivers = []verbs.DriverID{verbs.DriverMLX5}

// finder chooses devices.
type finder struct {
	root  string                                     // of /sys and /dev; "" is the system's
	host  host                                       // nil is the one this process runs on
	probe func(verbs.Device) (verbs.DriverID, error) // nil asks the kernel
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
	switch {
	case name == Soft:
		return f.soft(r, "the configuration names it"), nil
	case name == "" && r.inMachine(f.host):
		return f.soft(r, "both ends are on this machine"), nil
	}
	devices, err := f.devices(name)
	if err != nil {
		return Choice{}, err
	}
	s := search{finder: f, route: r}
	for i := range devices {
		s.look(&devices[i])
	}
	if c, ok := s.best(); ok {
		return c, nil
	}
	none := fmt.Errorf("no RDMA device has %v, the local address of the route to %v", r.local, r.remote)
	if len(devices) == 0 {
		none = errNoDevices
	}
	switch name {
	case "":
		c := f.soft(r, none.Error())
		c.Refused = s.refused
		return c, nil
	case Hardware:
		return Choice{}, s.failure(name, none)
	}
	if c, ok := s.any(); ok {
		return c, nil
	}
	return Choice{}, s.failure(name, errNoPort)
}

// soft is the choice of the software NIC.
func (f finder) soft(r route, reason string) Choice {
	c := Choice{Device: Soft, Reason: reason}
	if !r.inMachine(f.host) {
		c.Addr = r.local
	}
	return c
}

// devices lists the RDMA devices that may be used: the one of that name, or all.
func (f finder) devices(name string) ([]verbs.Device, error) {
	devices, err := verbs.Devices(f.root)
	switch {
	case err != nil || name == "":
		return devices, err
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
	s := search{finder: f.withDefaults()}
	for i := range devices {
		if s.usable(&devices[i]) {
			return nil
		}
	}
	return s.failure(name, errNoPort)
}
