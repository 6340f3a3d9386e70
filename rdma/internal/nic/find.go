package nic

import (
	"errors"
	"slices"

	"github.com/farwire/farwire/rdma/verbs"
)

// Find opens the device of that name below a root of sysfs and device nodes; "" is
// the system's. It is missing if there is none, or its driver is another one.
func Find(root, name string, driver verbs.DriverID, missing error) (verbs.File, error) {
	devices, err := verbs.Devices(root)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(devices, func(d verbs.Device) bool { return d.Name == name })
	if i < 0 {
		return nil, missing
	}
	file, err := devices[i].Open()
	if err != nil {
		return nil, err
	}
	return take(devices[i].Driver, file, driver, missing)
}

// take is file if it is of the driver; sysfs may tell which it is of. It is closed
// otherwise.
func take(told verbs.DriverID, file verbs.File, driver verbs.DriverID, missing error) (verbs.File, error) {
	var err error
	if told == verbs.DriverUnknown {
		told, err = verbs.ProbeDriver(file, driver)
	}
	if err == nil && told != driver {
		err = missing
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// SysfsGIDs reads the GID table of a port as it is now.
func SysfsGIDs(root, name string, port uint8, missing error) ([]verbs.GIDEntry, error) {
	devices, err := verbs.Devices(root)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		for _, p := range d.Ports {
			if d.Name == name && p.Number == port {
				return p.GIDs, nil
			}
		}
	}
	return nil, missing
}
