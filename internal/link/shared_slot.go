package link

import "net/netip"

// Slot is a place in shared memory where a packet can be made, in place of one that is
// copied there.
type Slot struct {
	// Buf has MaxSize bytes, of any value. What is read from it may be anything, at any time.
	Buf  []byte
	peer *sharedPeer
}

// Reserve returns a slot for a packet to an address, if there is one just now. Send of the
// slot must follow soon, and nothing else of the link before it on this goroutine.
func (l *Shared) Reserve(to netip.Addr) (s Slot, ok bool) {
	w := (*l.ways.Load())[to]
	if w == nil || l.gate.closed() {
		return s, false
	}
	p := w.peer.Load()
	if p == nil {
		return s, false
	}
	p.out.Lock()
	if !p.shut && len(p.waiting) == 0 {
		if room := p.channel.Out.Room(); room != nil {
			return Slot{room[:MaxSize], p}, true
		}
	}
	p.out.Unlock()
	return s, false
}

// Send sends the packet that is the first n bytes of the slot, a multiple of 4, with a traffic
// class, or none if n is 0.
func (s Slot) Send(n int, class uint8) {
	p := s.peer
	defer p.out.Unlock()
	if n == 0 {
		return
	}
	p.channel.Out.Put(uint16(class), n)
	p.link.count.countSent(n)
	p.sent()
}
