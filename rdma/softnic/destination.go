package softnic

import (
	"net/netip"
	"slices"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/rdma/verbs"
)

// destination is where reliable connections send by a link whose receiver loses what it
// has no room for. All of them together have no more under way than such a receiver holds;
// it is taken to be like this end, because no packet of RoCE tells. Who finds no room waits
// in line.
//
// While more than half is taken, the last packet of each turn asks for an acknowledgement
// (see rc.QP.SetRoom), so that room comes back whatever those have under way that sent
// before and now wait.
type destination struct {
	key    destinationKey
	buffer int // bytes
	used   int // bytes, of packets under way
	line   []*qp
	users  int
}

type destinationKey struct {
	out link.Link
	to  netip.Addr
}

// mostUnderWay is how many packets are under way to one destination, whatever its socket
// holds: a receiver in software needs some microseconds for each, and the last is to be
// answered before its sender takes it for lost.
const mostUnderWay = 512

// share is a queue pair's part in its destination.
type share struct {
	to      *destination // nil: there is room for all
	each    int          // bytes that a packet takes
	packets int          // under way, as far as the destination knows
	inLine  bool
}

// window is how many packets one queue pair may have under way: half of what the smallest
// buffer holds, if that is less than the protocol's own.
func (n *NIC) window() int {
	window := rc.DefaultWindow
	for _, l := range n.links {
		if b := l.Buffer(); b > 0 {
			window = max(min(window, b/link.Held(packetSize(n.mtu))/2), 1)
		}
	}
	return window
}

// packetSize is that of a full packet.
func packetSize(mtu verbs.MTU) int { return roce.BTHSize + mtu.Bytes() + roce.ICRCSize }

// join gives the queue pair, whose path is set, its part in a destination.
func (q *qp) join() {
	n, w := q.nic, &q.way
	buffer := w.out.Buffer()
	if buffer == 0 || w.neighbor != nil || q.service() != roce.ReliableConnection {
		return
	}
	key := destinationKey{w.out, w.to}
	d := n.destinations[key]
	if d == nil {
		d = &destination{key: key, buffer: buffer}
		n.destinations[key] = d
	}
	d.users++
	q.share = share{to: d, each: link.Held(packetSize(verbs.MTU(q.attr.PathMTU)))}
}

// leave gives it back.
func (q *qp) leave() {
	d := q.share.to
	if d == nil {
		return
	}
	q.stepOut()
	d.used -= q.share.packets * q.share.each
	q.share = share{}
	if d.users--; d.users == 0 {
		delete(q.nic.destinations, d.key)
	}
	q.nic.wake(d)
}

// count takes in what the queue pair has under way, and wakes who waits for what is free.
// It returns how many packets that is more than before.
func (q *qp) count() (more int) {
	s := &q.share
	more = q.connection.Outstanding() - s.packets
	s.packets += more
	s.to.used += more * s.each
	if more < 0 {
		q.nic.wake(s.to)
	}
	return more
}

// wake has the first in line served, if there is room for it.
func (n *NIC) wake(d *destination) {
	if len(d.line) > 0 && d.room(d.line[0]) > 0 {
		n.schedule(d.line[0])
		n.pending.Store(true)
	}
}

// room is how many packets a queue pair may put on their way: while there are others, so
// many for each that all get on alike.
func (d *destination) room(q *qp) int {
	if len(d.line) > 0 && d.line[0] != q {
		return 0
	}
	each := q.share.each
	all := min(d.buffer/each, mostUnderWay)
	free := all - (d.used+each-1)/each
	if 2*free >= all {
		return free
	}
	turn := min(burst, max(all/4, 1))
	if free < turn {
		return 0
	}
	return turn
}

// begin tells the protocol before a turn how much room there is.
func (q *qp) begin() {
	if d := q.share.to; d != nil {
		q.count()
		q.connection.SetRoom(d.room(q))
	}
}

// end counts what a turn has sent, and has the queue pair wait at the end of the line if it
// could have sent more. The first in line keeps its place if there was no room for as much
// as a READ asks for.
func (q *qp) end() {
	s := &q.share
	if s.to == nil {
		return
	}
	sent := q.count()
	if sent > 0 || !q.connection.Held() {
		q.stepOut()
	}
	if q.connection.Held() && !s.inLine {
		s.inLine = true
		s.to.line = append(s.to.line, q)
	}
}

// stepOut takes the queue pair out of the line, and lets the next have its turn.
func (q *qp) stepOut() {
	s := &q.share
	if !s.inLine {
		return
	}
	s.inLine = false
	i := slices.Index(s.to.line, q)
	if s.to.line = slices.Delete(s.to.line, i, i+1); i == 0 {
		q.nic.wake(s.to)
	}
}
