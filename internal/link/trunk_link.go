package link

import "net/netip"

// trunkLink is a link that joined a network through a Trunk.
type trunkLink struct {
	end
	trunk *Trunk
}

var _ Link = (*trunkLink)(nil)

func (l *trunkLink) Send(p *Packet) {
	size := p.size()
	switch {
	case !p.stamp(l.addr):
		l.count.drop(p, DropSize)
	case l.gate.closed():
		l.count.drop(p, DropClosed)
	case !p.Dst.IsValid():
		l.count.drop(p, DropUnknown)
	case !l.trunk.push(p):
		l.count.drop(p, DropSend)
	default:
		l.count.countSent(size)
	}
}

func (l *trunkLink) Close() error {
	if l.gate.shut() {
		l.trunk.leave(l.addr)
	}
	l.gate.wait()
	return nil
}

// leave takes an address off the network, if that is still there.
func (t *Trunk) leave(addr netip.Addr) {
	t.mu.Lock()
	delete(t.links, addr)
	t.mu.Unlock()
	_ = t.put(addrFrame(frameLeave, addr))
}
