package rxe

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Errors of NICs.
var (
	// ErrClosed is returned for a NIC that was closed.
	ErrClosed = nic.ErrClosed
	// ErrBusy is wrapped by Close's error while regions, completion queues or
	// queue pairs of the NIC are open.
	ErrBusy = nic.ErrBusy
	// ErrNoDevice is wrapped by Open's error if there is no such Soft-RoCE device.
	ErrNoDevice = errors.New("no such rxe device")
	// ErrNoGID is wrapped if the device has no global identifier that fits.
	ErrNoGID = nic.ErrNoGID
)

// Config chooses the address of a NIC. The zero Config is its best RoCE v2 address:
// an IPv4 one before a global IPv6 one before a link-local one, and of several the
// first.
type Config struct {
	// Addr is the IP address that the GID must stand for.
	Addr netip.Addr
	// NetDev is the network interface that the GID must be of: the one the device is on,
	// or a VLAN of it.
	NetDev string
	// GIDIndex is the slot of the GID table to use.
	GIDIndex *int

	// GIDs reads the GID table if the kernel cannot tell it by a command (before
	// Linux 5.10). Open takes sysfs.
	GIDs func(port uint8) ([]verbs.GIDEntry, error)

	root string // of sysfs and the device nodes; tests have their own
}

// thePort is the port that a Soft-RoCE device has.
const thePort = 1

// NIC is an open device. Its methods are safe for concurrent use.
type NIC struct {
	dev    *nic.Device
	port   *nic.Port
	limits Limits
}

// Limits is what a NIC holds.
type Limits struct {
	Completions      int    // of a completion queue
	Work             int    // entries of a send ring; receives of a receive ring
	Segments         int    // of an entry or a receive
	ReadSegments     int    // of a read
	Message          uint32 // bytes of a message
	Reads            int    // reads and atomics of a queue pair that run at once
	PeerReads        int    // the same of its peer
	Atomics          bool   // there are atomics, and peers may be granted them
	MemoryRegions    int
	QueuePairs       int
	CompletionQueues int
}

// Open opens the device of that name, such as rxe0, with the zero Config.
func Open(name string) (*NIC, error) { return Config{}.Open(name) }

// Open opens the device of that name, such as rxe0.
func (c Config) Open(name string) (*NIC, error) {
	n, err := c.open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return n, nil
}

func (c Config) open(name string) (*NIC, error) {
	file, err := nic.Find(c.root, name, verbs.DriverRXE, ErrNoDevice)
	if err != nil {
		return nil, err
	}
	if c.GIDs == nil {
		c.GIDs = func(port uint8) ([]verbs.GIDEntry, error) { return nic.SysfsGIDs(c.root, name, port, ErrNoDevice) }
	}
	return OpenFile(file, c)
}

// OpenFile opens the NIC behind file. The NIC owns file and closes it; on an error
// file is closed already.
func OpenFile(file verbs.File, c Config) (*NIC, error) {
	dev, err := nic.Open(file, nic.Driver{ID: verbs.DriverRXE})
	if err != nil {
		return nil, err
	}
	port, attr, err := nic.NewPort(dev, nic.PortConfig{
		Number: thePort, Addr: c.Addr, NetDev: c.NetDev, GIDIndex: c.GIDIndex, GIDs: c.GIDs,
	})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return &NIC{dev: dev, port: port, limits: limits(dev.Attr(), attr)}, nil
}

// limits combines what the kernel reports with what a ledger counts.
func limits(a verbs.DeviceAttr, port verbs.PortAttr) Limits {
	return Limits{
		Completions:      int(min(a.MaxCQE, maxSlots-1)),
		Work:             int(min(a.MaxQPWR, maxSlots-1)),
		Segments:         int(a.MaxSGE),
		ReadSegments:     int(a.MaxSGERead),
		Message:          min(port.MaxMsgSize, math.MaxInt32),
		Reads:            int(min(a.MaxReads, nic.MaxReads)),
		PeerReads:        int(min(a.MaxPeerReads, nic.MaxReads)),
		Atomics:          a.AtomicCap != 0,
		MemoryRegions:    int(a.MaxMR),
		QueuePairs:       int(a.MaxQP),
		CompletionQueues: int(a.MaxCQ),
	}
}

// Limits is what the NIC holds.
func (n *NIC) Limits() Limits { return n.limits }

// Port asks the kernel for the port's attributes. The state of the network interface
// is the port's.
func (n *NIC) Port() (verbs.PortAttr, error) { return n.port.Attr() }

// GIDs asks the kernel for the global identifiers: one for each address of the
// network interface.
func (n *NIC) GIDs() ([]verbs.GIDEntry, error) { return n.port.GIDs() }

// Event is an asynchronous event: of the port (Port is its number), of a queue
// pair (QPN), of a completion queue, or of the device. verbs.EventDeviceFatal is
// the last: nothing completes after it.
type Event = nic.Event

// Events makes f hear of every asynchronous event until stop is called; f may
// still be running when stop returns. It runs on a goroutine of the NIC's, must
// not block and must not call Close of the NIC.
func (n *NIC) Events(f func(Event)) (stop func()) { return n.dev.Subscribe(f) }

// Err is nil, or verbs.ErrDeviceFatal once the device has failed or was deleted.
func (n *NIC) Err() error { return n.dev.Failure() }

// Close closes the NIC. It wraps ErrBusy, and nothing happens, while regions,
// completion queues or queue pairs are open: they are closed first. It waits for
// the NIC's goroutines, so it must not be called from a function given to Events or
// to a completion queue. Later calls do nothing and return nil.
func (n *NIC) Close() error {
	if err := n.dev.Close(); err != nil {
		return fmt.Errorf("close NIC: %w", err)
	}
	return nil
}
