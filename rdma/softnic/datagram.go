package softnic

import (
	"net/netip"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/pcap"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/internal/ud"
	"github.com/farwire/farwire/rdma/verbs"
)

// datagramHost is a queue pair as the protocol of datagrams sees it.
type datagramHost struct{ *qp }

var _ ud.Host = datagramHost{}

// Destination finds the way to where an entry's address vector leads.
func (h datagramHost) Destination(w *rc.Work) (qpn, qkey uint32, ok bool) {
	a := &h.slots[w.Slot].Address
	qkey = a.QKey
	if qkey&prm.ControlledQKey != 0 {
		qkey = h.attr.Qkey
	}
	if h.way, ok = h.nic.wayTo(a); !ok {
		h.nic.count.DropUnreachable++
		h.nic.warn("datagram leads nowhere", "qpn", h.qpn, "source", a.SourceIndex, "gid", verbs.GID(a.GID), "lid", a.LID)
	}
	return a.QPN, qkey, ok
}

// wayTo is the way of a datagram; ok is false if there is none. Ethernet knows no
// port for a MAC that is not the one the address was resolved to; to which a kernel of
// its own resolves them the NIC does not know.
func (n *NIC) wayTo(a *prm.Address) (w way, ok bool) {
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		if a.LID == 0 || a.LID > maxLID {
			return w, false
		}
		w = way{out: n.gids[0].link, to: lidAddr(a.LID), class: a.TrafficClass, global: a.GRH}
		return w, !a.GRH || int(a.SourceIndex) < len(n.gids)
	}
	if int(a.SourceIndex) >= len(n.gids) {
		return w, false
	}
	w = way{out: n.gids[a.SourceIndex].link, to: verbs.GID(a.GID).Addr(), sourcePort: a.LID, class: a.TrafficClass}
	return w, w.out != nil && w.to.Is4() == w.out.Addr().Is4() && (n.cfg.Unaddressed || a.MAC == macOf(w.to))
}

// PutHeader puts the header of the packet's network into the receive taken last: what
// InfiniBand datagrams without one leave as it was.
func (h datagramHost) PutHeader() rc.Syndrome {
	p := h.nic.arriving
	if h.nic.cfg.LinkLayer == verbs.LinkInfiniBand && !p.Global {
		return h.receive.fault
	}
	h.nic.putNetworkHeader(p)
	return h.qp.PutReceive(0, h.nic.header[:])
}

// CompleteReceive writes the completion of a datagram's receive.
func (h datagramHost) CompleteReceive(a rc.Arrival, source uint32) {
	h.receive.source = source
	h.qp.CompleteReceive(a)
}

// setSource says where a datagram came from.
func (q *qp) setSource(c *prm.Completion) {
	p := q.nic.arriving
	c.RemoteQPN = q.receive.source
	switch {
	case q.nic.cfg.LinkLayer == verbs.LinkInfiniBand:
		c.SourceLID, c.GRH = addrLID(p.Src), p.Global
	case p.Src.Is4():
		c.GRH, c.Priority = true, prm.HeaderIPv4
	default:
		c.GRH, c.Priority = true, prm.HeaderIPv6
	}
}

// putNetworkHeader writes the 40 bytes in front of a datagram to the scratch: the
// GRH, the IPv6 header, or 20 bytes of nothing and the IPv4 header (annex A17.4.5.2). The
// hop limit is that of a packet that was sent just now: links do not tell.
func (n *NIC) putNetworkHeader(p *link.Packet) {
	clear(n.header[:])
	size := len(p.Buf) + roce.ICRCSize
	const udpHeader, ipv4Header = 8, 20
	h := pcap.Header{Src: p.Src, Dst: p.Dst, TClass: p.TClass}
	switch {
	case n.cfg.LinkLayer == verbs.LinkInfiniBand:
		h.Src, h.Dst = gidOf(p.Src), netip.AddrFrom16(n.gids[0].gid)
		h.AppendIP(n.header[:0], pcap.BTH, size)
	case p.Src.Is4():
		h.AppendIP(n.header[ipv4Header:ipv4Header], pcap.UDP, udpHeader+size)
	default:
		h.AppendIP(n.header[:0], pcap.UDP, udpHeader+size)
	}
}

// moveDatagrams carries out a change of a datagram queue pair's state.
func (q *qp) moveDatagrams(from, to uint8) error {
	a := &q.attr
	q.datagrams.SetKey(a.Qkey)
	switch {
	case to == uapi.QPRTR:
		return q.datagrams.StartReceive(a.Qkey)
	case to == uapi.QPRTS && from == uapi.QPRTR:
		q.rung = true
		return q.datagrams.StartSend(a.SqPsn)
	case to == uapi.QPErr:
		q.datagrams.Fail()
	}
	return nil
}
