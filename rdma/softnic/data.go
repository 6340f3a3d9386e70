package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
)

// Data movement: what the protocol asks of the memory behind keys.

var _ rc.Host = (*qp)(nil)

// Gather copies outgoing bytes of an entry.
func (q *qp) Gather(w *rc.Work, off uint32, p []byte) rc.Syndrome {
	s := &q.slots[w.Slot]
	if s.Inline != nil {
		copy(p, s.Inline[off:])
		return rc.OK
	}
	d := q.nic.walk(q.pd, s.Segments, off, p, 0, memory.Read)
	if d != detailNone {
		s.detail = d
		return rc.LocalProtection
	}
	return rc.OK
}

// Scatter copies the answer to a read or an atomic into the entry's memory.
func (q *qp) Scatter(w *rc.Work, off uint32, p []byte) rc.Syndrome {
	s := &q.slots[w.Slot]
	if s.Length <= uint64(q.inlineSend) && s.Flags&prm.CQEUpdate != 0 {
		s.inline.put(off, p)
		return rc.OK
	}
	d := q.nic.walk(q.pd, s.Segments, off, p, uapi.AccessLocalWrite, memory.Write)
	if d != detailNone {
		s.detail = d
		return rc.LocalProtection
	}
	return rc.OK
}

// PutReceive copies incoming bytes into the receive taken last.
func (q *qp) PutReceive(off uint32, p []byte) rc.Syndrome {
	r := &q.receive
	if r.fault != rc.OK {
		return r.fault
	}
	// What is short and starts a message is all of it: others start with a whole packet.
	if n := uint32(len(p)); off == 0 && 0 < n && n <= q.inlineReceive {
		r.inline.put(0, p)
		return rc.OK
	}
	if d := q.nic.walk(q.receivePD(), r.segments, off, p, uapi.AccessLocalWrite, memory.Write); d != detailNone {
		r.detail = d
		return rc.LocalProtection
	}
	return rc.OK
}

// receivePD is the domain of the memory that receives name.
func (q *qp) receivePD() *pd {
	if q.srq != nil {
		return q.srq.pd
	}
	return q.pd
}

// walk copies between p and the segments, of domain d, from byte off of their
// concatenation on. Regions are looked up anew each time: they may have been deregistered.
func (n *NIC) walk(d *pd, segments []prm.Segment, off uint32, p []byte, need uint32,
	access func(m memory, addr uint64, p []byte) error) detail {
	for i := range segments {
		s := &segments[i]
		if off >= s.Length {
			off -= s.Length
			continue
		}
		part := min(uint64(s.Length-off), uint64(len(p)))
		m, why := n.region(s.LKey, d)
		if why != detailNone {
			return why
		}
		addr, why := m.translate(s.Addr+uint64(off), uint32(part), need)
		if why != detailNone {
			return why
		}
		if access(m.mem, addr, p[:part]) != nil {
			return detailGone
		}
		if p = p[part:]; len(p) == 0 {
			return detailNone
		}
		off = 0
	}
	return detailNone
}

// CheckRemote says whether the peer may do a.
func (q *qp) CheckRemote(rkey uint32, va uint64, size uint32, a rc.Access) bool {
	m, d := q.nic.region(rkey, q.pd)
	if d == detailNone {
		_, d = m.translate(va, size, remoteNeed(a))
	}
	if d != detailNone {
		q.nic.warn("remote access refused", "qpn", q.qpn, "rkey", rkey, "address", va,
			"bytes", size, "access", a, "detail", d)
	}
	return d == detailNone
}

// WriteRemote copies bytes of the peer's write.
func (q *qp) WriteRemote(rkey uint32, va uint64, p []byte) bool {
	m, addr, ok := q.remote(rkey, va, uint32(len(p)), uapi.AccessRemoteWrite)
	return ok && m.mem.Write(addr, p) == nil
}

// ReadRemote copies bytes for the peer's read.
func (q *qp) ReadRemote(rkey uint32, va uint64, p []byte) bool {
	m, addr, ok := q.remote(rkey, va, uint32(len(p)), uapi.AccessRemoteRead)
	return ok && m.mem.Read(addr, p) == nil
}

// Atomic carries out the peer's atomic.
func (q *qp) Atomic(rkey uint32, va uint64, op rc.Op, swapAdd, compare uint64) (old uint64, ok bool) {
	m, addr, ok := q.remote(rkey, va, 8, uapi.AccessRemoteAtomic)
	switch {
	case !ok:
		return 0, false
	case op == rc.OpCompareSwap:
		return m.mem.CompareSwap64(addr, compare, swapAdd)
	}
	return m.mem.Add64(addr, swapAdd)
}

func (q *qp) remote(rkey uint32, va uint64, size, need uint32) (*mr, uint64, bool) {
	m, d := q.nic.region(rkey, q.pd)
	if d != detailNone {
		return nil, 0, false
	}
	addr, d := m.translate(va, size, need)
	return m, addr, d == detailNone
}

// Invalidate refuses: the keys of registered regions cannot be invalidated by a
// peer, and there are no others.
func (q *qp) Invalidate(rkey uint32) bool {
	q.nic.warn("invalidation refused", "qpn", q.qpn, "rkey", rkey)
	return false
}
