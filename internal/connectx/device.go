package connectx

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farwire/farwire/internal/pciconfig"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/internal/vfiouser"
	"github.com/farwire/farwire/rdma/softnic"
)

// Config is what a device is made of.
type Config struct {
	NIC    *softnic.NIC   // stays the caller's
	Memory softnic.Memory // the guest's, at the addresses that the driver uses
	Raise  func(vector int)
	Logger *slog.Logger // nil: nothing is told
}

// Device is a function of a software ConnectX. It is safe for concurrent use.
type Device struct {
	nic    *softnic.NIC
	guest  softnic.Memory
	log    *slog.Logger
	config *pciconfig.Space
	epoch  time.Time
	failed atomic.Bool // the NIC has

	mu       sync.Mutex // guards what follows; before the NIC's lock
	use      use
	queue    uint64            // address of the command queue
	caps     map[uint16][]byte // capabilities as the driver set them, by type
	function *softnic.Function
	budget   int64 // entries of page lists that objects may still hold
	mkeys    map[uint32]kept
	cqs      map[uint32]kept
	qps      map[uint32]*queuePair
	srqs     map[uint32]kept
	sqs      map[uint32]kept
	port     ethernetPort
	portDown bool // because the driver wants it so
	idle     idle

	events eventQueues
}

// New makes a device, in the state after power-on. The caller closes it, before the
// NIC.
func New(c Config) (*Device, error) {
	d := &Device{nic: c.NIC, log: c.Logger, epoch: time.Now()}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if d.config, err = pciconfig.New(identity(c.NIC)); err != nil {
		return nil, fmt.Errorf("connectx: %w", err)
	}
	d.guest = &bus{d.config, c.Memory}
	d.events.raise = func(vector int) {
		if d.config.MayMaster() {
			c.Raise(vector)
		}
	}
	if err := d.powerOn(); err != nil {
		return nil, fmt.Errorf("connectx: %w", err)
	}
	return d, nil
}

// powerOn makes everything that commands work on anew.
func (d *Device) powerOn() (err error) {
	d.setPort(true)
	d.use, d.queue, d.caps, d.budget = useNone, 0, map[uint16][]byte{}, maxPages
	d.mkeys, d.cqs, d.srqs, d.sqs = map[uint32]kept{}, map[uint32]kept{}, map[uint32]kept{}, map[uint32]kept{}
	d.port = ethernetPort{mtu: standardMTU}
	d.qps, d.idle = map[uint32]*queuePair{}, idle{}
	d.events.clear()
	d.function, err = d.nic.OpenFunction(d.asynchronous)
	return err
}

// Reset is the device's way back to the state after power-on.
func (d *Device) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config.Reset()
	d.restart()
}

// restart destroys all objects. A NIC that has failed has no function any more: then
// commands fail.
func (d *Device) restart() {
	d.events.clear()
	if d.function != nil {
		_ = d.function.Close()
	}
	if err := d.powerOn(); err != nil {
		d.log.Warn("restart", "error", err)
		d.function = nil
		d.failed.Store(true)
	}
}

// Close destroys all objects.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events.clear()
	d.setPort(true)
	if d.function == nil {
		return nil
	}
	f := d.function
	d.function = nil
	return f.Close()
}

// The device's regions: registers and doorbell pages in one, and the table of the
// interrupt vectors in another, so that a monitor that traps accesses to the table
// traps no doorbells.
const (
	barSize     = 16 << 20
	msixBARSize = 4096
	msixPending = 0x800
	// Vectors is how many interrupt vectors the device has.
	Vectors = 16
)

// Layout is what the server of the device needs to know.
func Layout() vfiouser.Config {
	c := vfiouser.Config{Vectors: Vectors}
	c.Regions[vfiouser.BAR0], c.Regions[vfiouser.BAR2] = barSize, msixBARSize
	c.Regions[vfiouser.ConfigSpace] = pciconfig.Size
	return c
}

// The device is a ConnectX-5 (Linux mlx5_core main.c, mlx5_core_pci_table).
const (
	vendorMellanox  = 0x15b3
	deviceConnectX5 = 0x1017
	vendorOUI       = 0x2c9
	classEthernet   = 0x020000
	classInfiniBand = 0x020700
)

func identity(n *softnic.NIC) pciconfig.Function {
	f := pciconfig.Function{
		Vendor: vendorMellanox, Device: deviceConnectX5, SubsystemVendor: vendorMellanox, SubsystemDevice: 1, Class: classEthernet,
		MSIX: pciconfig.MSIX{Vectors: Vectors, BAR: vfiouser.BAR2, Pending: msixPending},
	}
	if infiniBand(n) {
		f.Class = classInfiniBand
	}
	f.BARs[vfiouser.BAR0] = pciconfig.BAR{Size: barSize, Prefetchable: true}
	f.BARs[vfiouser.BAR2] = pciconfig.BAR{Size: msixBARSize}
	return f
}

// Read reads a region.
func (d *Device) Read(region int, offset uint64, p []byte) {
	switch region {
	case vfiouser.ConfigSpace:
		d.config.Read(offset, p)
	case vfiouser.BAR0:
		d.readRegisters(offset, p)
	}
}

// Write writes a region, and does what the store asks for before it returns.
func (d *Device) Write(region int, offset uint64, p []byte) {
	switch {
	case region == vfiouser.ConfigSpace:
		d.config.Write(offset, p)
	case region != vfiouser.BAR0:
	case offset < registersEnd:
		d.writeRegister(offset, p)
	default:
		d.writePage(uint32(offset/pageSize), int(offset%pageSize), p)
	}
}

const pageSize = 4096

// Doorbells of event queues in every doorbell page (Linux mlx5_core eq.c,
// eq_update_ci): one arms the queue as well. The word is the queue's number and the
// index of the next entry it has not seen.
const (
	eqArm    = 0x40
	eqUpdate = 0x48
)

func (d *Device) writePage(page uint32, offset int, p []byte) {
	if offset == eqArm || offset == eqUpdate {
		if len(p) == 4 {
			v := binary.BigEndian.Uint32(p)
			d.events.update(uint8(v>>24), v&maxNumber, offset == eqArm)
		}
		return
	}
	d.mu.Lock()
	f := d.function
	d.mu.Unlock()
	if f != nil {
		f.Ring(page, offset, p)
	}
}

// maxNumber is the largest number or index of 24 bits.
const maxNumber = 1<<24 - 1

// asynchronous hands an event of the NIC on to the driver. It is called with the
// NIC locked. That the NIC has failed is no entry of a queue: the driver looks at the
// health registers.
func (d *Device) asynchronous(e softnic.FunctionEvent) {
	if e.Kind == uapi.EventDeviceFatal {
		d.failed.Store(true)
		return
	}
	if entry, ok := entryOf(e); ok {
		d.events.post(&entry)
	}
}
