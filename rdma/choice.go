package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/farwire/farwire/rdma/verbs"
)

// Choice is where a connection's queue pair is made, and why there. It is plain data.
type Choice struct {
	Device string         // name of an RDMA device, or Soft
	Driver verbs.DriverID // of the RDMA device

	// Port is the port of the device, from 1. The software NIC has but one: 0.
	Port uint8

	// Addr is the address that the port's GID stands for, without a zone; NetDev is the
	// network interface that has it, "" if the kernel does not tell. Addr is not valid
	// if the device has its own way to find one: an InfiniBand port by its LID, the
	// software NIC within this machine.
	Addr   netip.Addr
	NetDev string

	Reason  string    // why this one
	Refused []Refusal // the RDMA devices and ports that were looked at and are not used
}

// failure is the error of a choice that cannot be had after all. If it stands in for the
// devices that were refused, the error is about these as well.
func (c Choice) failure(r route, err error) error {
	if c.Device == Soft && c.Refused != nil {
		err = fmt.Errorf("%s, and the software NIC cannot be used: %w", c.Reason, err)
		return &DeviceError{Local: r.local, Remote: r.remote, Refused: c.Refused, Err: err}
	}
	return fmt.Errorf("device %s: %w", c.Device, err)
}

// A Refusal says why a device, or one of its ports, is not used.
type Refusal struct {
	Device string
	Port   uint8 // 0 is the whole device
	Reason string
}

// String returns, e.g., "mlx5_0 port 1 has 10.0.0.1 on eth0 instead".
func (r Refusal) String() string {
	if r.Port == 0 {
		return r.Device + " " + r.Reason
	}
	return fmt.Sprintf("%s port %d %s", r.Device, r.Port, r.Reason)
}

// DeviceError is the error of a connection that no device can carry. Its text names every
// device and port that was looked at, and why each was refused.
type DeviceError struct {
	Device        string     // as configured: "" if the route chooses
	Local, Remote netip.Addr // of the route, without zones; not valid if there is none, as in Listen
	Refused       []Refusal
	Err           error // what was asked for in vain
}

// Error is one line, however many the refusals.
func (e *DeviceError) Error() string {
	var b strings.Builder
	if e.Device != "" {
		fmt.Fprintf(&b, "device %s: ", e.Device)
	}
	b.WriteString(e.Err.Error())
	for i, r := range e.Refused {
		b.WriteString([]string{" (refused: ", "; "}[min(i, 1)])
		b.WriteString(r.String())
	}
	if len(e.Refused) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap returns Err.
func (e *DeviceError) Unwrap() error { return e.Err }

// Choose tells which device a connection between two addresses uses, as Dial and Listen
// choose it, and why every other one is refused. It opens nothing but devices whose
// driver sysfs does not tell. The error is a *DeviceError if no device fits.
func (c Config) Choose(local, remote netip.Addr) (Choice, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Choice{}, err
	}
	choice, _, err := c.ports.choose(c.Device, routeBetween(local, remote))
	return choice, err
}

var (
	errNoDevice  = errors.New("no such RDMA device")
	errNoPort    = errors.New("no port can be used")
	errNoDevices = errors.New("there are no RDMA devices (is the kernel module ib_uverbs loaded, and mlx5_ib for a ConnectX?)")
)
