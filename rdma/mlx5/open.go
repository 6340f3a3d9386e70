package mlx5

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/verbs"
)

// Errors of NICs.
var (
	// ErrClosed is returned for a NIC that was closed.
	ErrClosed = nic.ErrClosed
	// ErrBusy is wrapped by Close's error while regions, completion queues or
	// queue pairs of the NIC are open.
	ErrBusy = nic.ErrBusy
	// ErrNoDevice is wrapped by Open's error if there is no such mlx5 device.
	ErrNoDevice = errors.New("no such mlx5 device")
	// ErrNoGID is wrapped if the port has no global identifier that fits.
	ErrNoGID = nic.ErrNoGID
)

// Config chooses the port and the address of a NIC. The zero Config is port 1
// and, on Ethernet, its best RoCE v2 address: an IPv4 one before a global IPv6
// one before a link-local one, and of several the first.
type Config struct {
	Port uint8 // from 1; 0 is 1

	// Addr is the IP address that the port's GID must stand for.
	Addr netip.Addr
	// NetDev is the network interface that the GID must belong to: an address can be that
	// of several, such as a link-local one of a VLAN's interface and of the one below.
	NetDev string
	// GIDIndex is the slot of the port's GID table to use.
	GIDIndex *int

	// GIDs reads the port's GID table if the kernel cannot tell it by a command
	// (before Linux 5.10). Open takes sysfs.
	GIDs func(port uint8) ([]verbs.GIDEntry, error)

	root string // of sysfs and the device nodes; tests have their own
}

// Open opens the device of that name, such as mlx5_0, with the zero Config.
func Open(name string) (*NIC, error) { return Config{}.Open(name) }

// Open opens the device of that name, such as mlx5_0.
func (c Config) Open(name string) (*NIC, error) {
	nic, err := c.open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return nic, nil
}

func (c Config) open(name string) (*NIC, error) {
	file, err := nic.Find(c.root, name, verbs.DriverMLX5, ErrNoDevice)
	if err != nil {
		return nil, err
	}
	return OpenFile(file, c.withGIDs(name))
}

// withGIDs is c that can read the GID table of the device of that name.
func (c Config) withGIDs(name string) Config {
	if c.GIDs == nil {
		c.GIDs = func(port uint8) ([]verbs.GIDEntry, error) { return nic.SysfsGIDs(c.root, name, port, ErrNoDevice) }
	}
	return c
}

// OpenFile opens the NIC behind file: a device node, or a software NIC. The NIC
// owns file and closes it; on an error file is closed already.
func OpenFile(file verbs.File, c Config) (*NIC, error) {
	if c.Port == 0 {
		c.Port = 1
	}
	dev, err := device.Open(file)
	if err != nil {
		return nil, err
	}
	port, attr, err := nic.NewPort(dev.Device, nic.PortConfig{
		Number: c.Port, Addr: c.Addr, NetDev: c.NetDev, GIDIndex: c.GIDIndex, GIDs: c.GIDs,
	})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return &NIC{dev: dev, port: port, limits: limits(dev, attr)}, nil
}
