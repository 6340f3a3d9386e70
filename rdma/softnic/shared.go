package softnic

import "github.com/farwire/farwire/internal/link"

// NICs of other processes of this user on this host are reached through shared memory.
// What they send is taken in by whoever runs the engine: there need be no goroutine of the
// NIC's own on a packet's way.

// share opens the port's link over the one that open makes.
func (n *NIC) share(open func(link.Receiver) (link.Link, error), r link.Receiver) (link.Link, error) {
	l, err := link.Share(open, n.kick, r)
	if err != nil {
		return nil, err
	}
	n.shared.Store(l)
	return l, nil
}

// reserve is a place in shared memory for the queue pair's next packet, if it may take that
// way and nobody must see it before.
func (q *qp) reserve() (s link.Slot, ok bool) {
	n, l := q.nic, q.nic.shared.Load()
	if l == nil || q.connection == nil || q.way.out != n.main || n.capture != nil || !n.portUp || !n.main.Clear() {
		return s, false
	}
	return l.Reserve(q.way.to)
}

// take takes in a packet that is in shared memory.
func (n *NIC) take(p *link.Packet) {
	n.takePacket(n.now, p)
	p.Release()
}

// takeShared takes in what came through shared memory, and returns how much that was.
func (n *NIC) takeShared() int {
	if l := n.shared.Load(); l != nil {
		return l.Poll(n.takeNow)
	}
	return 0
}
