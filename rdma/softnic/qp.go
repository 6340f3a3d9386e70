package softnic

import (
	"net/netip"
	"time"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/internal/ud"
	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// qp is a queue pair: the queues in memory, and the protocol between them and
// the wire.
type qp struct {
	nic            *NIC
	mem            memory
	origin         origin
	qpn            uint32
	kind           uint8 // uapi.QPTypeRC, ...
	user           uint64
	userIndex      uint32 // as completions of sends carry it
	receiveIndex   uint32 // as completions of receives carry it: the same, or the shared queue's number
	pd             *pd
	sendCQ, recvCQ *cq
	srq            *srq // nil: receives of its own
	uar            *uar
	register       uint32 // static mode: number as the kernel gives it
	async          *eventFile
	buf, record    uint64
	sendBuf        uint64
	sendBlocks     uint32 // a power of two, or 0
	receives       uint32 // a power of two, or 0
	stride         uint32 // of the receive queue, in bytes
	caps           uapi.QPCap
	signalAll      bool
	sink           bool // entries complete and do nothing
	charge         int64

	inlineSend, inlineReceive uint32 // bytes of a message that go into its completion

	state uint8 // uapi.QPReset, ...
	attr  uapi.QueryQPResp
	way   way // to the peer, or of the datagram that is being sent

	proto      transport
	connection *rc.QP // the protocol, if it is one
	congestion
	share     share
	datagrams *ud.QP // the protocol, if it is that

	// Send queue.
	head         uint16 // block of the next entry to fetch
	rung         bool   // the record may be ahead of head
	blueFlameBad bool   // the entry at head came with other bytes in its doorbell
	slots        []slot // entries handed to the protocol, a ring
	slotNext     uint32 // free running
	slotDone     uint32

	// Receive queue.
	receiveHead uint16
	receive     receive

	scheduled   bool // in NIC.ready
	doomed      bool // to be moved to error
	asyncEvents uint32
	failed      bool // destroyed: left in lists it is skipped

	deadline time.Time // in NIC.timers, if timer >= 0
	timer    int
}

// transport is what the protocols have in common.
type transport interface {
	Post(w *rc.Work)
	Receive(now time.Time, p *roce.Packet)
	Refuse(b roce.BTH)
	Transmit(now time.Time, p []byte) int
	Deadline() (time.Time, bool)
	Expire(now time.Time)
	Fail()
	Reset()
	Counters() rc.Counters
}

var (
	_ transport = (*rc.QP)(nil)
	_ transport = (*ud.QP)(nil)
)

// way is how packets leave.
type way struct {
	out        link.Link
	to         netip.Addr
	sourcePort uint16
	class      uint8
	global     bool // on InfiniBand: packets have a GRH
	neighbor   *NIC // that has the address, if this process has it: see pass.go
}

// slot is an entry of the send queue from its fetch to its completion.
type slot struct {
	prm.Send
	block   uint16 // of the queue, as completions carry it
	entry   []byte // what Inline points into
	fetched int    // bytes of entry
	detail  detail // why it fails, where the NIC knows
	cause   error
	inline  inlineData
}

// inlineData is what goes into a completion instead of memory.
type inlineData struct {
	bytes [prm.Inline64]byte
	n     uint32
}

func (d *inlineData) put(off uint32, p []byte) { d.n = off + uint32(copy(d.bytes[off:], p)) }

// receive is the entry of the receive queue that a message is going to.
type receive struct {
	segments []prm.Segment
	addr     uint64
	entry    []byte
	fetched  int // bytes of entry
	counter  uint16
	source   uint32 // of a datagram: the queue pair it came from
	detail   detail // why it cannot be used
	fault    rc.Syndrome
	inline   inlineData
}

// maxSlots bounds the entries handed to the protocol, and with them the memory
// of a queue pair.
const maxSlots = 64

// burst is how many packets a queue pair sends before the next has its turn.
const burst = 16

func (n *NIC) addQP(q *qp) {
	q.nic = n
	for n.qps[n.nextQPN] != nil {
		n.nextQPN = nextNumber(n.nextQPN)
	}
	q.qpn = n.nextQPN
	n.nextQPN = nextNumber(n.nextQPN)
	n.qps[q.qpn] = q
	q.slots = make([]slot, max(1, min(maxSlots, int(q.sendBlocks))))
	q.receive.entry = make([]byte, q.stride)
	if q.srq != nil {
		q.srq.users++
		q.receive.entry = make([]byte, q.srq.stride)
	}
	q.newTransport()
	q.timer = -1
	q.pd.users++
	q.sendCQ.users++
	q.recvCQ.users++
	q.sendCQ.qps[q], q.recvCQ.qps[q] = true, true
	q.uar.qps[q] = true
	q.uar.refs++
	n.count.QPs++
}

func (n *NIC) dropQP(q *qp) {
	q.failed = true
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	n.addProtocolCounters(q.proto.Counters())
	q.leave()
	delete(n.qps, q.qpn)
	delete(n.flushing, q)
	n.unschedule(q)
	q.pd.users--
	if q.srq != nil {
		q.srq.users--
	}
	q.sendCQ.users--
	q.recvCQ.users--
	delete(q.sendCQ.qps, q)
	delete(q.recvCQ.qps, q)
	delete(q.uar.qps, q)
	q.uar.forgetQP(q.qpn)
	q.uar.put()
	n.count.QPs--
}

func (q *qp) newTransport() {
	if q.kind == uapi.QPTypeUD {
		q.datagrams = ud.New(datagramHost{q}, ud.Params{QPN: q.qpn, MTU: q.nic.mtu.Bytes(), Depth: len(q.slots)})
		q.proto = q.datagrams
		return
	}
	q.connection = rc.New(q, rc.Params{Depth: len(q.slots), Window: q.nic.window(), Unreliable: q.kind == uapi.QPTypeUC})
	q.proto = q.connection
}

// service is the transport of the queue pair's packets.
func (q *qp) service() roce.Transport {
	switch q.kind {
	case uapi.QPTypeUC:
		return roce.UnreliableConnection
	case uapi.QPTypeUD:
		return roce.Datagram
	}
	return roce.ReliableConnection
}

// reset is the move to RESET: the queues start over.
func (q *qp) reset() {
	n := q.nic
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	n.addProtocolCounters(q.proto.Counters())
	q.proto.Reset()
	q.leave()
	q.state = uapi.QPReset
	q.attr = uapi.QueryQPResp{}
	q.head, q.rung, q.blueFlameBad = 0, false, false
	q.slotNext, q.slotDone = 0, 0
	q.receiveHead = 0
	q.doomed = false
	q.congestion = congestion{}
	delete(n.flushing, q)
	n.unschedule(q)
}

// ring notes that entries may have been posted.
func (q *qp) ring() {
	q.rung = true
	q.nic.schedule(q)
}

// doorbell checks what a send doorbell says against the doorbell record: the
// record is written first, so it is ahead of the entry.
func (q *qp) doorbell(bell prm.Ctrl) {
	v, ok := q.loadSend()
	if !ok {
		q.nic.warn("send doorbell record is not mapped", "qpn", q.qpn)
		return
	}
	posted := uint16(prm.BE32(v))
	ahead, behind := bell.Index-q.head, q.head-bell.Index
	if ahead >= posted-q.head && (behind == 0 || behind > 1<<15) {
		q.nic.badDoorbell("send doorbell record is not ahead of the doorbell",
			"qpn", q.qpn, "record", posted, "doorbell", bell.Index)
	}
	q.ring()
}

// loadSend reads the send queue's word of the doorbell record.
func (q *qp) loadSend() (v uint32, ok bool) {
	return q.nic.load(q.origin, q.mem, q.record+4*prm.RecordSend, trace.SendQueue, q.qpn)
}

// serve fetches entries and sends packets, a burst at most, and returns how much it did.
func (q *qp) serve(now time.Time) (did int) {
	n := q.nic
	if q.doomed {
		q.doomed = false
		q.proto.Fail()
	}
	did = q.fetch()
	if q.state == uapi.QPErr && q.flushReceives() > 0 {
		n.flushWait = 0
	}
	if q.owed {
		q.sendNotice()
		did++
	}
	q.checkRate(now)
	q.begin()
	sent := q.pass(now)
	did += sent
	for ; ; sent++ {
		if sent == burst {
			n.schedule(q)
			break
		}
		if q.rate != nil && !q.mayPass(now) {
			break
		}
		size := q.transmit(now)
		if size == 0 {
			break
		}
		if q.rate != nil {
			q.rate.Sent(now, size)
		}
		did++
	}
	q.end()
	if q.rung && q.sending() && q.hasSlot() {
		n.schedule(q)
	}
	n.setDeadline(q)
	return did
}

// transmit sends the next packet, and returns its size, or 0 if there is none.
func (q *qp) transmit(now time.Time) (size int) {
	n := q.nic
	if slot, ok := q.reserve(); ok {
		size = q.proto.Transmit(now, slot.Buf)
		slot.Send(size, q.way.class)
		if size > 0 {
			n.countSent(size)
		}
		return size
	}
	if n.packet == nil {
		n.packet = q.get()
	}
	size = q.proto.Transmit(now, n.packet.Buf)
	if size == 0 {
		return 0
	}
	p := n.packet
	n.packet = nil
	p.Buf = p.Buf[:size]
	q.sendAs(p, q.way.class)
	return size
}

func (q *qp) get() *link.Packet { return link.Get(link.MaxSize) }

// sendAs puts a packet on the link of the queue pair's path.
func (q *qp) sendAs(p *link.Packet, class uint8) {
	n := q.nic
	if !n.portUp {
		n.count.DropPortDown++
		p.Release()
		return
	}
	n.countSent(len(p.Buf))
	w := &q.way
	p.Dst, p.SrcPort, p.TClass, p.Global = w.to, w.sourcePort, class, w.global
	w.out.Send(p)
}

// countSent counts a packet that leaves, and has links flushed.
func (n *NIC) countSent(size int) {
	n.count.PacketsSent++
	n.count.BytesSent += uint64(size)
	n.sent = true
}

// arrive takes in a packet for the queue pair.
func (q *qp) arrive(now time.Time, p *link.Packet) {
	n := q.nic
	if q.connection != nil && (p.Src != q.way.to || p.Dst != q.way.out.Addr()) {
		n.count.DropWrongPeer++
		return
	}
	if p.TClass&ecnMask == ecnExperienced && n.cfg.LinkLayer == verbs.LinkEthernet {
		q.marked(now)
	}
	if isNotice(p) {
		q.noticed(now, p)
		n.schedule(q)
		return
	}
	packet, err := roce.ParseApart(q.service(), p.Headers(), p.Buf)
	n.arriving, n.parsed = p, packet
	switch {
	case err == nil:
		q.proto.Receive(now, &n.parsed)
	case err.(roce.Reason) >= roce.ReasonOpcode:
		n.warn("malformed packet", "qpn", q.qpn, "error", err)
		q.proto.Refuse(packet.BTH)
	case err == roce.ReasonTransport:
		n.count.DropTransport++
		return
	default:
		n.count.DropMalformed++
		return
	}
	n.schedule(q)
}
