package nic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
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
	driver Driver
	ctx    *verbs.Context
	attr   verbs.DeviceAttr
	pd     uint32

	channel *verbs.CompChannel
	loops   sync.WaitGroup
	failed  atomic.Bool

	registry registry

	mu     sync.Mutex // guards what follows
	live   map[any]struct{}
	kept   []kept
	closed bool
}

// Driver is what opening and closing a device differ in between drivers. Slices
// may be nil, and so may functions.
type Driver struct {
	ID                verbs.DriverID
	Request, Response []byte // of the context
	Domain            []byte // response of the protection domain

	Map   func(*verbs.Context) error // once there is a context, and its attributes are known
	Unmap func() error               // undoes Map, however far that came: no mapping may outlive the file
	Free  func() error               // once the file is closed
}

// Open makes a context of file, which must be a device of the driver's. It takes
// file over: on an error file is closed.
func Open(file verbs.File, driver Driver) (*Device, error) {
	d := &Device{driver: driver, live: map[any]struct{}{}}
	d.registry.init()
	ctx, err := verbs.NewContext(file, driver.ID, driver.Request, driver.Response)
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

func (d *Device) setUp() (err error) {
	if d.attr, err = d.ctx.QueryDevice(); err != nil {
		return err
	}
	if d.driver.Map != nil {
		if err := d.driver.Map(d.ctx); err != nil {
			return err
		}
	}
	if d.pd, err = d.ctx.AllocPD(d.driver.Domain); err != nil {
		return err
	}
	d.channel, err = d.ctx.CreateCompChannel()
	return err
}

// Attr is what the core driver reports about the device.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Context is the context, for commands that have no method here.
func (d *Device) Context() *verbs.Context { return d.ctx }

// Domain is the handle of the protection domain.
func (d *Device) Domain() uint32 { return d.pd }

// Channel is the completion channel, which the device reads.
func (d *Device) Channel() *verbs.CompChannel { return d.channel }

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
		errs = append(errs, d.IgnoreGone(d.ctx.DeallocPD(d.pd)))
	}
	if d.driver.Unmap != nil {
		errs = append(errs, d.driver.Unmap())
	}
	errs = append(errs, d.ctx.Close())
	d.loops.Wait()
	if d.driver.Free != nil {
		errs = append(errs, d.driver.Free())
	}
	for _, k := range d.kept {
		if k.mem != nil {
			errs = append(errs, k.mem.Free())
		}
	}
	d.kept = nil
	return errors.Join(errs...)
}

// IgnoreGone is err, but nil for what a device that is gone answers: its objects
// go with it. The kernel keeps the pages that they were made with until then,
// whether they are mapped or not.
func (d *Device) IgnoreGone(err error) error {
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

// ModifyQP changes a queue pair's attributes.
func (d *Device) ModifyQP(handle uint32, a verbs.QPAttr, mask verbs.QPMask) error {
	a.Access = d.grant(a.Access)
	return d.ctx.ModifyQP(handle, a, mask)
}

// QueryQP asks for a queue pair's attributes.
func (d *Device) QueryQP(handle uint32, mask verbs.QPMask) (verbs.QPAttr, error) {
	a, _, err := d.ctx.QueryQP(handle, mask)
	return a, err
}
