package link

import (
	"net/netip"

	"github.com/farwire/farwire/internal/roce"
)

// end is what links in memory have in common: where packets arrive.
type end struct {
	addr    netip.Addr
	receive Receiver
	gate    gate
	count   counters
}

func newEnd(addr netip.Addr, r Receiver) end { return end{addr: addr, receive: r, gate: newGate()} }

func (e *end) Addr() netip.Addr   { return e.addr }
func (e *end) MTU() int           { return roce.MaxMTU }
func (e *end) Get(n int) *Packet  { return Get(n) }
func (e *end) Flush()             {}
func (e *end) Buffer() int        { return 0 }
func (e *end) Counters() Counters { return e.count.snapshot() }

// deliver gives a packet to the receiver, unless it is damaged. Its caller has entered
// the gate.
func (e *end) deliver(p *Packet) {
	if !p.unseal() {
		e.count.drop(p, DropICRC)
		return
	}
	e.count.countReceived(len(p.Buf))
	e.receive(p)
}
