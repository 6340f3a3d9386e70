package link

import "github.com/farwire/farwire/internal/roce"

// Seen is a packet as it is on the wire. Buf ends with the ICRC: that which the packet
// has or, where the network needs none, would have. A tap may look at it until it
// returns.
type Seen struct {
	roce.Path
	TClass uint8
	Global bool // as in Packet
	Buf    []byte
}

// Tap wraps the link that open makes and shows tap each packet that the link is about to
// send, and each it received, those from its own address once. Packets that the link
// drops because they came damaged, or were of a bad size, it does not show. The tap is
// called on the goroutine that brings the packet, and on several at once.
func Tap(open func(Receiver) (Link, error), tap func(Seen), r Receiver) (Link, error) {
	t := &tapped{tap: tap}
	l, err := open(func(p *Packet) {
		if p.Src != p.Dst {
			t.show(p)
		}
		r(p)
	})
	if err != nil {
		return nil, err
	}
	t.Link = l
	return t, nil
}

// tapped is a link whose packets are shown.
type tapped struct {
	Link
	tap func(Seen)
}

// Send shows and sends.
func (t *tapped) Send(p *Packet) {
	if p.stamp(t.Addr()) {
		t.show(p)
	}
	t.Link.Send(p)
}

func (t *tapped) show(p *Packet) {
	sealed := p.sealed
	p.seal()
	t.tap(Seen{Path: p.path(), TClass: p.TClass, Global: p.Global, Buf: p.Buf})
	if !sealed {
		p.trim()
	}
}
