package rdma

import (
	"fmt"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// drivers are those that this package has a data path for; devices of earlier ones go
// first.
var drivers = []verbs.DriverID{verbs.DriverMLX5, verbs.DriverRXE}

// card is an opened port, of any driver.
type card interface {
	// newPair is an unconnected queue pair for so many entries and receives, and a
	// completion queue for no other.
	newPair(sends, receives int) (queuePair, completions, error)

	// register makes n bytes of memory for message buffers.
	register(n int) (conn.Slab, error)

	Events(func(nic.Event)) (stop func())
	Err() error
	Close() error
}

// queuePair is what is needed of a driver's queue pair.
type queuePair interface {
	Number() uint32
	Endpoint() verbs.Endpoint
	Connect(work.Access, verbs.Endpoint) error
	Post(work.Entry) error
	Ring() error
	Receive(id uint64, into ...work.Segment) error
	Fail() error
	Destroy() error
}

// completions is what is needed of a driver's completion queue.
type completions interface {
	Poll([]work.Completion) (int, error)
	Arm(solicitedOnly bool) error
	Notify(func())
	Close() error
}

// openCard opens the port of a device.
func openCard(key portKey) (card, error) {
	switch key.driver {
	case verbs.DriverMLX5:
		return openMLX5(key)
	case verbs.DriverRXE:
		return openRXE(key)
	}
	return nil, fmt.Errorf("the driver %v is not supported", key.driver)
}
