package link

import (
	"errors"
	"fmt"
	"net/netip"
)

// Route puts one link on two networks: what it sends to an address on the switch
// goes in memory, everything else by the wire, which open joins (UDP, say). It has
// the address of the wire's link, and its receiver hears both.
func Route(s *Switch, open func(Receiver) (Link, error), r Receiver) (Link, error) {
	wire, err := open(r)
	if err != nil {
		return nil, err
	}
	port, err := s.join(wire.Addr(), r)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join in-memory network as %v: %w", wire.Addr(), err), wire.Close())
	}
	return &router{wire: wire, port: port}, nil
}

type router struct {
	wire Link
	port *port
}

var _ Link = (*router)(nil)

func (l *router) Addr() netip.Addr   { return l.wire.Addr() }
func (l *router) MTU() int           { return min(l.wire.MTU(), l.port.MTU()) }
func (l *router) Get(n int) *Packet  { return l.wire.Get(n) }
func (l *router) Flush()             { l.wire.Flush() }
func (l *router) Buffer() int        { return l.wire.Buffer() }
func (l *router) Counters() Counters { return l.wire.Counters().add(l.port.Counters()) }

func (l *router) Send(p *Packet) {
	to := l.port.net.lookup(p.Dst.Unmap())
	switch {
	case to == nil:
		l.wire.Send(p)
	case !p.stamp(l.port.addr):
		l.port.count.drop(p, DropSize)
	default:
		l.port.send(p, to)
	}
}

func (l *router) Close() error {
	return errors.Join(l.port.Close(), l.wire.Close())
}
