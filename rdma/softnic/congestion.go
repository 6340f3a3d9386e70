package softnic

import (
	"time"

	"github.com/farwire/farwire/internal/dcqcn"
	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// The low two bits of a traffic class (RFC 3168).
const (
	ecnMask        = 3
	ecnCapable     = 2 // ECT(0): this sender heeds marks
	ecnExperienced = 3 // marked by a switch
)

// lineRate is that of the port, in bytes per second: EDR, as portAttributes says.
const lineRate = 100e9 / 8

// congestion is what a connected queue pair knows of it. A queue pair that never heard
// of any has no rate, and pays a look at a nil pointer for each packet.
type congestion struct {
	rate     *dcqcn.Rate // nil: as fast as can be
	held     bool        // a packet may wait for its time
	wentBack uint64      // of the protocol's, how often is known
	notifier dcqcn.Notifier
	owed     bool // the peer is to be told of marks
}

// setECN has packets marked rather than dropped, where switches know how: the peer tells
// of marks, and this end heeds what it says. Who asks for a certain value has it.
func (q *qp) setECN() {
	if q.nic.cfg.LinkLayer == verbs.LinkEthernet && q.way.class&ecnMask == 0 {
		q.way.class |= ecnCapable
	}
}

// marked takes in that a packet came marked.
func (q *qp) marked(now time.Time) {
	q.nic.count.MarksReceived++
	if q.connection != nil && q.notifier.Marked(now) {
		q.owed = true
	}
}

const noticePayload = 16 // of zeros (annex A17.9.3)

// sendNotice tells the peer of marks, by a packet that is not to be marked itself.
func (q *qp) sendNotice() {
	q.owed = false
	h := roce.Header{Opcode: roce.CongestionNotification, BECN: true, DestQP: q.attr.DestQPNum}
	p := link.Get(roce.Size(h.Opcode, noticePayload))
	payload, _ := h.Put(p.Buf, noticePayload)
	clear(payload)
	q.nic.count.NoticesSent++
	q.sendAs(p, q.way.class&^ecnMask)
}

// isNotice says that a packet is a congestion notification.
func isNotice(p *link.Packet) bool {
	return roce.BTH(p.Headers()[:roce.BTHSize]).Opcode() == roce.CongestionNotification
}

// noticed takes in a congestion notification.
func (q *qp) noticed(now time.Time, p *link.Packet) {
	n := q.nic
	b := roce.BTH(p.Headers()[:roce.BTHSize])
	if b.Version() != 0 || !b.BECN() || len(p.Buf) != roce.BTHSize+noticePayload {
		n.count.DropMalformed++
		return
	}
	n.count.PacketsAccepted++
	n.count.NoticesReceived++
	if q.connection != nil && q.state == uapi.QPRTS {
		q.pace(now).Notified(now)
	}
}

// pace is the queue pair's rate, which it has from now on.
func (q *qp) pace(now time.Time) *dcqcn.Rate {
	if q.rate == nil {
		q.rate = dcqcn.NewRate(now, lineRate)
	}
	return q.rate
}

// checkRate lowers the rate if the protocol found packets lost since it was last looked
// at, and drops it once it is no limit any more.
func (q *qp) checkRate(now time.Time) {
	if q.connection == nil {
		return
	}
	if back := q.connection.WentBack(); back != q.wentBack {
		q.wentBack = back
		q.pace(now).Lost(now)
	}
	if q.rate != nil && q.rate.Recovered(now) {
		q.rate = nil
	}
	q.held = false
}

// mayPass says whether a packet may be sent by now.
func (q *qp) mayPass(now time.Time) bool {
	q.held = q.rate.Next().After(now)
	return !q.held
}

// wakeAt is when the queue pair wants to be looked at, if nothing comes before.
func (q *qp) wakeAt() (t time.Time, ok bool) {
	t, ok = q.proto.Deadline()
	if !q.held {
		return t, ok
	}
	if next := q.rate.Next(); !ok || next.Before(t) {
		return next, true
	}
	return t, true
}
