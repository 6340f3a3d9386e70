package device

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/verbs"
)

// Errors of devices.
var (
	// ErrClosed is returned for a device that was closed.
	ErrClosed = errors.New("NIC is closed")
	// ErrBusy is returned by Close while regions or queues are open.
	ErrBusy = errors.New("NIC is in use")
)

// Device is one context of a NIC. Its methods are safe for concurrent use.
type Device struct {
	ctx  *verbs.Context
	attr verbs.DeviceAttr
	caps prm.AllocContextResponse
	pd   uint32

	channel *verbs.CompChannel
	loops   sync.WaitGroup
	failed  atomic.Bool

	pages    pages
	records  records
	pairs    Table
	users    users
	registry registry

	numbering sync.Mutex // see numbers

	mu     sync.Mutex // guards what follows
	live   map[any]struct{}
	kept   []kept
	closed bool
}

// Open makes a context of file, which must be an mlx5 device's. It takes file
// over: on an error file is closed.
func Open(file verbs.File) (*Device, error) {
	d := &Device{live: map[any]struct{}{}}
	d.registry.init()
	request := contextRequest()
	ctx, err := verbs.NewContext(file, verbs.DriverMLX5, prm.Bytes(&request), prm.Bytes(&d.caps))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	d.ctx = ctx
	if err := d.setUp(); err != nil {
		return nil, errors.Join(err, d.tearDown())
	}
	d.loops.Go(d.readAsync)
	d.loops.Go(d.readCompletions)
	return d, nil
}

// contextRequest asks for doorbell pages of our own choice. A kernel that does
// not know them gives 16 static registers, of which the last 4 are for one queue
// pair each.
func contextRequest() prm.AllocContextRequest {
	return prm.AllocContextRequest{
		TotalRegisters:      staticRegisters,
		LowLatencyRegisters: lowLatencyRegisters,
		MaxCQEVersion:       1,
		LibCaps:             prm.LibCap4KUAR | prm.LibCapDynUAR,
	}
}

func (d *Device) setUp() (err error) {
	if d.attr, err = d.ctx.QueryDevice(); err != nil {
		return err
	}
	if err := d.pages.open(d.ctx, &d.caps); err != nil {
		return err
	}
	var response prm.AllocPDResponse
	if d.pd, err = d.ctx.AllocPD(prm.Bytes(&response)); err != nil {
		return err
	}
	d.channel, err = d.ctx.CreateCompChannel()
	return err
}

// Attr is what the core driver reports about the device.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Caps is what the mlx5 driver reports about the context.
func (d *Device) Caps() *prm.AllocContextResponse { return &d.caps }

// Context is the context, for commands that have no method here.
func (d *Device) Context() *verbs.Context { return d.ctx }

// Failure is verbs.ErrDeviceFatal once the device has failed, nil before.
func (d *Device) Failure() error {
	if d.failed.Load() {
		return verbs.ErrDeviceFatal
	}
	return nil
}

// Hold counts object as open, and keeps what it refers to from the garbage
// collector. It is ErrClosed if the device is closed.
func (d *Device) Hold(object any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.live[object] = struct{}{}
	return nil
}

// Drop ends Hold.
func (d *Device) Drop(object any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, object)
}

// kept is what an object that the kernel refused to destroy may still use.
type kept struct {
	mem    *hostmem.Memory
	object any
}

// Keep keeps mem mapped, and object from the garbage collector, until the device
// is closed. Either may be nil.
func (d *Device) Keep(mem *hostmem.Memory, object any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = append(d.kept, kept{mem, object})
}

// NewRecord is a zeroed doorbell record. FreeRecord takes it back once no object
// of the kernel uses it.
func (d *Device) NewRecord() (*Record, error) { return d.records.get() }

// FreeRecord ends NewRecord.
func (d *Device) FreeRecord(r *Record) { d.records.put(r) }

// Close releases the device. It is ErrBusy, and nothing happens, while objects
// are held. It waits for the event goroutines, so it must not be called from
// one. Later calls do nothing and return nil.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if n := len(d.live); n > 0 {
		d.mu.Unlock()
		return fmt.Errorf("%w by %d regions and queues", ErrBusy, n)
	}
	d.closed = true
	d.mu.Unlock()
	return d.tearDown()
}

// tearDown undoes Open from whatever it reached, in the order the kernel wants:
// no mapping may outlive the file, and no memory the kernel's objects.
func (d *Device) tearDown() error {
	var errs []error
	if d.channel != nil {
		errs = append(errs, d.channel.Close())
	}
	if d.channel != nil && len(d.kept) == 0 {
		errs = append(errs, d.ignoreGone(d.ctx.DeallocPD(d.pd)))
	}
	errs = append(errs, d.pages.unmap(), d.ctx.Close())
	d.loops.Wait()
	errs = append(errs, d.records.close())
	for _, k := range d.kept {
		if k.mem != nil {
			errs = append(errs, k.mem.Free())
		}
	}
	d.kept = nil
	return errors.Join(errs...)
}

// ignoreGone is err, but nil for what a device that is gone answers: its objects
// go with it. The kernel keeps the pages that they were made with until then,
// whether they are mapped or not.
func (d *Device) ignoreGone(err error) error {
	if errors.Is(err, verbs.ErrDeviceRemoved) && (d.failed.Load() || d.removed()) {
		return nil
	}
	return err
}

// removed asks the kernel whether the device is gone, whose event may not have
// been read yet. Firmware may answer as a device that is gone does; this command
// does not go that far.
func (d *Device) removed() bool {
	_, err := d.ctx.QueryDevice()
	return errors.Is(err, verbs.ErrDeviceRemoved)
}
