package softnic

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/rc"
)

// Messages are passed to a queue pair of this process without packets where nothing
// could be seen of those: see Config.Packets, and Pass of package rc. The receiver's
// NIC is held meanwhile, if it is free; if not, packets go, which its engine finds.

// neighbors are the NICs that this process has on a network, by the addresses of their
// links.
type neighbors struct {
	mu   sync.Mutex // guards changes
	nics atomic.Pointer[map[netip.Addr]*NIC]
}

// at is the NIC with an address, nil if this process has none.
func (ns *neighbors) at(addr netip.Addr) *NIC {
	if m := ns.nics.Load(); m != nil {
		return (*m)[addr]
	}
	return nil
}

func (ns *neighbors) add(n *NIC) {
	ns.change(func(m map[netip.Addr]*NIC) {
		for _, l := range n.links {
			m[l.Addr()] = n
		}
	})
}

func (ns *neighbors) remove(n *NIC) {
	ns.change(func(m map[netip.Addr]*NIC) {
		maps.DeleteFunc(m, func(_ netip.Addr, other *NIC) bool { return other == n })
	})
}

func (ns *neighbors) change(f func(map[netip.Addr]*NIC)) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	changed := map[netip.Addr]*NIC{}
	if m := ns.nics.Load(); m != nil {
		maps.Copy(changed, *m)
	}
	f(changed)
	ns.nics.Store(&changed)
}

// maxPass is the longest message that is passed: it is copied with both NICs held.
const maxPass = 1 << 20

// pass carries what it can of the send queue straight to the peer, a burst at most, and
// returns how many messages that were.
func (q *qp) pass(now time.Time) (did int) {
	n, peer := q.nic, q.way.neighbor
	if peer == nil || q.connection == nil || !n.plain(q.way.out.Addr()) {
		return 0
	}
	if peer != n {
		if !peer.mu.TryLock() {
			return 0
		}
		defer n.letGo(peer)
		if peer.now.Before(now) {
			peer.now = now
		}
	}
	if !peer.plain(q.way.to) {
		return 0
	}
	to := peer.qps[q.attr.DestQPNum]
	if to == nil || !to.expects(q) {
		return 0
	}
	for ; did < burst && !q.doomed && !to.doomed; did++ {
		w := q.connection.Passable(to.connection)
		if w == nil || w.Length > maxPass || w.Length <= to.inlineReceive && w.Length > 0 {
			break
		}
		data, ok := q.view(w)
		if !ok || !q.connection.Pass(now, to.connection, data) {
			break
		}
		if q.connection.State() == rc.Error || to.connection.State() == rc.Error {
			peer.schedule(to)
			break
		}
	}
	return did
}

// letGo gives up a NIC that was held to pass messages. What others brought to it
// meanwhile, or came of the messages, is done when the caller's is given up too: that
// may be what it needs.
func (n *NIC) letGo(peer *NIC) {
	if len(peer.ready) > 0 {
		peer.pending.Store(true)
	}
	peer.mu.Unlock()
	if !peer.pending.Load() || n.disturbed == peer {
		return
	}
	if n.disturbed != nil {
		n.disturbed.handOver()
	}
	n.disturbed = peer
}

// plain reports whether nothing of what a NIC does to packets, or with them, would show
// at its link with this address.
func (n *NIC) plain(addr netip.Addr) bool {
	if n.cfg.Packets || n.capture != nil || n.failed || n.closed || !n.portUp || n.faults != noFaults || n.holdAll {
		return false
	}
	for _, l := range n.links {
		if l.Addr() == addr {
			return l.Clear()
		}
	}
	return false
}

var noFaults = Faults{}.withDefaults()

// expects reports whether the queue pair takes packets of q.
func (q *qp) expects(from *qp) bool {
	return q.connection != nil && q.connected() && q.way.to == from.way.out.Addr() && q.way.out.Addr() == from.way.to
}

// view is the message of a work, where it is in one piece in this process's memory.
func (q *qp) view(w *rc.Work) (data []byte, ok bool) {
	s := &q.slots[w.Slot]
	switch {
	case w.Length == 0:
		return nil, true
	case s.Inline != nil:
		return s.Inline, true
	case len(s.Segments) == 0 || s.Segments[0].Length < w.Length:
		return nil, false
	}
	m, d := q.nic.region(s.Segments[0].LKey, q.pd)
	if d != detailNone {
		return nil, false
	}
	addr, d := m.translate(s.Segments[0].Addr, w.Length, 0)
	if d != detailNone {
		return nil, false
	}
	if _, own := m.mem.(ownMemory); !own {
		return nil, false
	}
	return hostmem.View(addr, int(w.Length)), true
}
