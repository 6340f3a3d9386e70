package connectx

import (
	"math/bits"

	"github.com/farwire/farwire/internal/ifc"
)

// class is a kind of objects that are a number and no more: the device makes them because
// the driver does not do without, and nothing can be done with them.
type class uint8

const (
	classQP  class = iota // those of the kernel's own: GSI, and for memory keys
	classSRQ              // of extended reliable connections
	classXRCD
	classDomain // of transport; each user context has one
	classTIR
	classTIS
	classRQT
	classRQ
	classFlowTable
	classFlowGroup
	classCounter
	classes
)

// idle are a device's objects of these kinds.
type idle [classes]numbers

// logMax is how many there are of each, as a logarithm.
func (c class) logMax() int {
	switch c {
	case classQP, classSRQ:
		return 5
	case classCounter: // numbers have 8 bits
		return 7
	}
	return 12 // as many as there are doorbell pages
}

// firstIdle is the number of the first. Queue pairs and shared receive queues are numbered
// below the NIC's own.
const firstIdle = 0x10

// numbers are those that are taken, a bit each.
type numbers []uint64

// take takes the lowest of max numbers; false if all are taken.
func (n *numbers) take(max int) (number uint32, ok bool) {
	i := 0
	for ; i < len(*n); i++ {
		if (*n)[i] != ^uint64(0) {
			break
		}
	}
	if i == len(*n) {
		*n = append(*n, 0)
	}
	bit := i*64 + bits.TrailingZeros64(^(*n)[i])
	if bit >= max {
		return 0, false
	}
	(*n)[i] |= 1 << (bit & 63)
	return firstIdle + uint32(bit), true
}

// has says whether a number is taken.
func (n numbers) has(number uint32) bool {
	bit := int(number) - firstIdle
	return bit >= 0 && bit < 64*len(n) && n[bit/64]>>(bit&63)&1 != 0
}

// give gives a number back; false if it was not taken.
func (n numbers) give(number uint32) bool {
	if !n.has(number) {
		return false
	}
	bit := number - firstIdle
	n[bit/64] &^= 1 << (bit & 63)
	return true
}

func (d *Device) takeIdle(c class) (number uint32, err error) {
	number, ok := d.idle[c].take(1 << c.logMax())
	if !ok {
		return 0, refuse(ifc.ExceedsLimit, "%d objects of a kind that does nothing", 1<<c.logMax())
	}
	return number, nil
}

// makeIdle carries out a command that makes an object, unmakeIdle one that destroys one,
// and modifyIdle one that is about one.
func makeIdle(c class) func(*Device, *request) error {
	return func(d *Device, r *request) error { return r.made(d.takeIdle(c)) }
}

func unmakeIdle(c class) func(*Device, *request) error { return unmakeIdleAt(c, ifc.Object) }

// unmakeIdleAt is unmakeIdle for a command that has the object's number elsewhere.
func unmakeIdleAt(c class, at ifc.Field) func(*Device, *request) error {
	return func(d *Device, r *request) error {
		if number := at.Get(r.in); !d.idle[c].give(uint32(number)) {
			return refuse(ifc.BadResource, "no such object: %#x", number)
		}
		return nil
	}
}

func modifyIdle(c class) func(*Device, *request) error {
	return func(d *Device, r *request) error {
		if !d.idle[c].has(r.object()) {
			return refuse(ifc.BadResource, "no such object: %#x", r.object())
		}
		return nil
	}
}
