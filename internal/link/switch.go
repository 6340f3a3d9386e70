package link

import (
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Switch is a network in memory. A packet is delivered on the sender's goroutine,
// before Send returns; a link that sends to its own address hears itself. The zero
// value is not usable. All methods are safe for concurrent use.
type Switch struct {
	mu    sync.Mutex // guards changes of ports
	ports atomic.Pointer[map[netip.Addr]*port]
}

// NewSwitch returns a network with nobody on it.
func NewSwitch() *Switch {
	s := new(Switch)
	s.ports.Store(&map[netip.Addr]*port{})
	return s
}

// Join puts a link with this address on the network. It fails with ErrAddrInUse
// when the address has joined and not left, and with ErrAddr.
func (s *Switch) Join(addr netip.Addr, r Receiver) (Link, error) {
	p, err := s.join(addr, r)
	if err != nil {
		return nil, fmt.Errorf("join in-memory network as %v: %w", addr, err)
	}
	return p, nil
}

// Has reports whether a link with this address is on the network.
func (s *Switch) Has(addr netip.Addr) bool { return s.lookup(addr.Unmap()) != nil }

func (s *Switch) join(addr netip.Addr, r Receiver) (*port, error) {
	addr, err := usable(addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lookup(addr) != nil {
		return nil, ErrAddrInUse
	}
	p := &port{end: newEnd(addr, r), net: s}
	ports := maps.Clone(*s.ports.Load())
	ports[addr] = p
	s.ports.Store(&ports)
	return p, nil
}

func (s *Switch) leave(addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ports := maps.Clone(*s.ports.Load())
	delete(ports, addr)
	s.ports.Store(&ports)
}

func (s *Switch) lookup(addr netip.Addr) *port { return (*s.ports.Load())[addr] }

// port is a link on a Switch.
type port struct {
	end
	net *Switch
}

var _ Link = (*port)(nil)

func (p *port) Send(pkt *Packet) {
	if !pkt.stamp(p.addr) {
		p.count.drop(pkt, DropSize)
		return
	}
	p.send(pkt, p.net.lookup(pkt.Dst))
}

// send counts a stamped packet and delivers it to a port, which may be nil.
func (p *port) send(pkt *Packet, to *port) {
	if p.gate.closed() {
		p.count.drop(pkt, DropClosed)
		return
	}
	if to == nil || !to.gate.enter() {
		p.count.drop(pkt, DropUnknown)
		return
	}
	defer to.gate.leave()
	p.count.countSent(pkt.size())
	to.deliver(pkt)
}

func (p *port) Close() error {
	if p.gate.shut() {
		p.net.leave(p.addr)
	}
	p.gate.wait()
	return nil
}
