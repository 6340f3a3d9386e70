package link

import (
	"errors"
	"net/netip"
)

// Receiver takes a packet that arrived, and owns it. A link calls it on any
// goroutine, also on one that is inside Send, from several at once, and before
// the function that makes the link has returned. It must not block, and must not
// close the link. It may send; a chain of links whose receivers all send at once
// recurses.
type Receiver func(*Packet)

// Link is one address on a network. All methods are safe for concurrent use,
// also with each other.
type Link interface {
	// Addr returns the address of the link, IPv4 never mapped into IPv6.
	Addr() netip.Addr
	// MTU returns the largest RoCE path MTU (payload) that the link carries, 256
	// to 4096. It never changes.
	MTU() int
	// Get returns a packet for Send; see the function Get.
	Get(n int) *Packet
	// Send takes the packet and sends it from Addr to p.Dst, sooner or later, or
	// drops and counts it. It does not wait for the receiver. The packets of one
	// goroutine to one address stay in order but for impairments.
	Send(p *Packet)
	// Flush sends what Send only queued. A sender calls it when it has nothing
	// more to send for now. No link here waits for it; a sender calls it all the same.
	Flush()
	// Buffer returns how many bytes of packets, each taken for Held(its size), wait for
	// their reader at an end like this one before others are lost. It returns 0 where none are, or that is not known.
	Buffer() int
	// Counters returns what happened so far.
	Counters() Counters
	// Close leaves the network. When it returns no call of the receiver runs or
	// comes any more; packets sent later are dropped. Further calls do nothing
	// and return nil.
	Close() error
}

// Errors of joining a network.
var (
	// ErrAddrInUse means that the address, or its port 4791, belongs to another.
	ErrAddrInUse = errors.New("address in use")
	// ErrAddr means an address no link can have: invalid, unspecified, multicast or broadcast.
	ErrAddr = errors.New("not a unicast address")
)

// usable returns the address as links write it: unmapped, without a zone.
func usable(addr netip.Addr) (netip.Addr, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast {
		return netip.Addr{}, ErrAddr
	}
	return addr.WithZone(""), nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
