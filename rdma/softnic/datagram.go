package softnic

import (
	"encoding/binary"
	"net/netip"

	"github.com/farwire/farwire/internal/link"
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
// port for a MAC that is not the one the address was resolved to.
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
	return w, w.out != nil && w.to.Is4() == w.out.Addr().Is4() && a.MAC == macOf(w.to)
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

// hopLimit is what datagrams arrive with: links do not tell.
const hopLimit = 64

// Next headers of IPv6 and of a GRH.
const (
	nextUDP = 17
	nextBTH = 27
)

// putNetworkHeader writes the 40 bytes in front of a datagram to the scratch: the
// GRH, the IPv6 header, or 20 bytes of nothing and the IPv4 header (annex A17.4.5.2).
func (n *NIC) putNetworkHeader(p *link.Packet) {
	b := n.header[:]
	clear(b)
	be := binary.BigEndian
	size := len(p.Buf) + roce.ICRCSize
	const udpHeader = 8
	switch {
	case n.cfg.LinkLayer == verbs.LinkInfiniBand:
		src := linkLocalOf(guidOf(p.Src))
		putIPv6(b, p.TClass, size, nextBTH)
		copy(b[8:], src[:])
		copy(b[24:], n.gids[0].gid[:])
	case p.Src.Is4():
		b = b[20:]
		b[0], b[1] = 0x45, p.TClass
		be.PutUint16(b[2:], uint16(20+udpHeader+size))
		be.PutUint16(b[6:], 1<<14) // not to be fragmented
		b[8], b[9] = hopLimit, nextUDP
		putAddrs(b[12:], p.Src, p.Dst)
		be.PutUint16(b[10:], checksum(b))
	default:
		putIPv6(b, p.TClass, udpHeader+size, nextUDP)
		putAddrs(b[8:], p.Src, p.Dst)
	}
}

// putIPv6 writes an IPv6 header, or a GRH, without its addresses.
func putIPv6(b []byte, class uint8, size int, next uint8) {
	binary.BigEndian.PutUint32(b, 6<<28|uint32(class)<<20)
	binary.BigEndian.PutUint16(b[4:], uint16(size))
	b[6], b[7] = next, hopLimit
}

func putAddrs(b []byte, src, dst netip.Addr) {
	for _, a := range [2]netip.Addr{src, dst} {
		if a.Is4() {
			v := a.As4()
			b = b[copy(b, v[:]):]
		} else {
			v := a.As16()
			b = b[copy(b, v[:]):]
		}
	}
}

// checksum is that of an IPv4 header whose checksum is 0.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
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
