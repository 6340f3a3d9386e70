package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/rdma/verbs"
)

// Port is a port of a device, and the address that is used of it. Its methods
// are safe for concurrent use.
type Port struct {
	dev    *Device
	config PortConfig

	changes atomic.Uint32 // of the port, as its events tell

	mu      sync.Mutex // guards what follows, and is held while the kernel is asked
	address Address
	asOf    uint32 // the changes that address knows of
}

// PortConfig chooses the port and its address. The zero values of Addr, NetDev and
// GIDIndex leave the choice open.
type PortConfig struct {
	Number   uint8
	Addr     netip.Addr // what the GID must stand for
	NetDev   string     // the network interface that the GID must belong to
	GIDIndex *int       // its slot

	// GIDs reads the port's GID table if the kernel cannot tell it by a command;
	// may be nil.
	GIDs func(port uint8) ([]verbs.GIDEntry, error)
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

// NewPort is a port of d, and its attributes.
func NewPort(d *Device, c PortConfig) (*Port, verbs.PortAttr, error) {
	p := &Port{dev: d, config: c}
	d.Subscribe(p.heard) // before anything is asked that may change
	attr, err := p.Attr()
	if err == nil {
		p.address, err = p.findAddress(attr)
	}
	return p, attr, err
}

// heard takes an event of the device.
func (p *Port) heard(e Event) {
	if e.Type.IsPort() && e.Port == p.config.Number {
		p.changes.Add(1)
	}
}

// Number is the number of the port, from 1.
func (p *Port) Number() uint8 { return p.config.Number }

// Attr asks the kernel for the port's attributes.
func (p *Port) Attr() (verbs.PortAttr, error) {
	a, err := p.dev.ctx.QueryPort(p.config.Number)
	if err != nil {
		return a, fmt.Errorf("port %d: %w", p.config.Number, err)
	}
	return a, nil
}

// GIDs asks the kernel for the port's global identifiers.
func (p *Port) GIDs() ([]verbs.GIDEntry, error) {
	gids, err := p.dev.ctx.GIDs(p.config.Number)
	if errors.Is(err, errors.ErrUnsupported) && p.config.GIDs != nil {
		gids, err = p.config.GIDs(p.config.Number)
	}
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", p.config.Number, err)
	}
	return gids, nil
}

// Address is the address of the port, as the PortConfig chooses it. The kernel is
// asked again after the port's attributes or addresses have changed.
func (p *Port) Address() (Address, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.changes.Load()
	if changes == p.asOf {
		return p.address, nil
	}
	attr, err := p.Attr()
	if err != nil {
		return Address{}, err
	}
	address, err := p.findAddress(attr)
	if err != nil {
		return Address{}, err
	}
	p.address, p.asOf = address, changes
	return address, nil
}
