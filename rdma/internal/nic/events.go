package nic

import (
	"errors"
	"os"

	"github.com/farwire/farwire/rdma/verbs"
)

// Event is an asynchronous event of a device.
type Event struct {
	Type verbs.EventType
	Port uint8  // of port events
	QPN  uint32 // of queue pair events: the number of one that is open
	SRQN uint32 // of events of shared receive queues, the same
}

// Subscribe makes f hear of every event until stop is called; f may still be
// running when stop returns. It runs on the device's goroutine and must not block.
func (d *Device) Subscribe(f func(Event)) (stop func()) { return d.registry.subscribe(f) }

// readAsync takes asynchronous events until the device is closed or gone. Not to
// hear from the device any more is as bad as hearing that it failed: doorbells
// would go nowhere in silence.
func (d *Device) readAsync() {
	record := make([]byte, verbs.AsyncEventSize)
	for {
		n, err := d.ctx.Async().Read(record)
		if err == nil {
			var e verbs.Event
			if e, err = verbs.ParseEvent(record[:n]); err == nil {
				d.dispatch(e)
				continue
			}
		}
		d.lost(err)
		return
	}
}

// lost ends a loop that cannot read events any more.
func (d *Device) lost(err error) {
	if !errors.Is(err, os.ErrClosed) && d.fail() {
		d.registry.publish(Event{Type: verbs.EventDeviceFatal})
	}
}

func (d *Device) dispatch(e verbs.Event) {
	out := Event{Type: e.Type}
	switch {
	case e.Type == verbs.EventDeviceFatal:
		if !d.fail() {
			return // a firmware error may be followed by the removal
		}
	case e.Type.IsPort():
		out.Port = uint8(e.Element)
	default:
		o := d.registry.get(e.Element)
		out.QPN, out.SRQN = o.qpn, o.srqn
		if o.owner != nil && e.Type == verbs.EventCQError {
			o.owner.Failed(true)
		}
	}
	d.registry.publish(out)
}

// fail tells all completion queues that nothing more will come. It is false if
// they know.
func (d *Device) fail() bool {
	if d.failed.Swap(true) {
		return false
	}
	for _, owner := range d.registry.owners() {
		owner.Failed(false)
	}
	return true
}

// readCompletions takes completion events until the device is closed or gone.
func (d *Device) readCompletions() {
	record := make([]byte, verbs.CompEventSize)
	for {
		var id uint64
		n, err := d.channel.Read(record)
		if err == nil {
			id, err = verbs.ParseCompEvent(record[:n])
		}
		if err != nil {
			d.lost(err)
			return
		}
		if owner := d.registry.get(id).owner; owner != nil {
			owner.Completed()
		}
	}
}
