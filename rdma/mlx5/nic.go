package mlx5

import (
	"fmt"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/verbs"
)

// NIC is an open port of a NIC. Its methods are safe for concurrent use.
type NIC struct {
	dev    *device.Device
	port   *nic.Port
	limits Limits
}

// Address is where a port is reached.
type Address struct {
	LinkLayer verbs.LinkLayer
	MTU       verbs.MTU // the port's active MTU
	LID       uint16    // InfiniBand
	GID       verbs.GID // Ethernet, and InfiniBand if the kernel tells
	GIDIndex  int       // GID's slot in the port's table
	Global    bool      // packets need a global header: always on Ethernet
}

// Limits is what the NIC holds.
func (n *NIC) Limits() Limits { return n.limits }

// Port asks the kernel for the port's attributes. Queue pairs can be made and
// connected while the port is down; what they post waits, and fails in the end.
func (n *NIC) Port() (verbs.PortAttr, error) { return n.port.Attr() }

// PortNumber is the number of the port, from 1.
func (n *NIC) PortNumber() uint8 { return n.port.Number() }

// GIDs asks the kernel for the port's global identifiers.
func (n *NIC) GIDs() ([]verbs.GIDEntry, error) { return n.port.GIDs() }

// Address is the address of the port, as the Config chooses it. The kernel is
// asked again after the port's attributes or addresses have changed.
func (n *NIC) Address() (Address, error) {
	a, err := n.port.Address()
	return Address(a), err
}

// Event is an asynchronous event: of the port (Port is its number), of a queue
// pair (QPN), of a shared receive queue (SRQN), of a completion queue, or of the device. verbs.EventDeviceFatal is
// the last: nothing completes after it.
type Event = nic.Event

// Events makes f hear of every asynchronous event until stop is called; f may
// still be running when stop returns. It runs on a goroutine of the NIC's, must
// not block and must not call Close of the NIC.
func (n *NIC) Events(f func(Event)) (stop func()) { return n.dev.Subscribe(f) }

// Err is nil, or verbs.ErrDeviceFatal once the device has failed.
func (n *NIC) Err() error { return n.dev.Failure() }

// Close closes the NIC. It wraps ErrBusy, and nothing happens, while regions,
// completion queues or queue pairs are open: they are closed first. What the
// kernel refused to destroy before goes now. It waits for the NIC's goroutines,
// so it must not be called from a function given to Events or to a completion
// queue. Later calls do nothing and return nil.
func (n *NIC) Close() error {
	if err := n.dev.Close(); err != nil {
		return fmt.Errorf("close NIC: %w", err)
	}
	return nil
}

// Device is what the packages below this one need of a NIC.
func (n *NIC) Device() *device.Device { return n.dev }

// Base is what package qp needs of the port.
func (n *NIC) Base() *nic.Port { return n.port }
