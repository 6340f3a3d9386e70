package softnic

import (
	"net/netip"
	"time"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
)

// qp is a queue pair: the queues in memory, and the protocol between them and
// the wire.
type qp struct {
	nic            *NIC
	mem            memory
	qpn            uint32
	user           uint64
	userIndex      uint32 // as completions carry it
	pd             *pd
	sendCQ, recvCQ *cq
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
	charge         int64

	state      uint8 // uapi.QPReset, ...
	attr       uapi.QueryQPResp
	sourcePort uint16
	out        link.Link
	peer       netip.Addr

	proto *rc.QP

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

// slot is an entry of the send queue from its fetch to its completion.
type slot struct {
	prm.Send
	block  uint16 // of the queue, as completions carry it
	entry  []byte // what Inline points into
	detail detail // why it fails, where the NIC knows
	cause  error
}

// receive is the entry of the receive queue that a message is going to.
type receive struct {
	segments []prm.Segment
	entry    []byte
	counter  uint16
	detail   detail // why it cannot be used
	fault    rc.Syndrome
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
	q.proto = rc.New(q, rc.Params{Depth: len(q.slots)})
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
	delete(n.qps, q.qpn)
	delete(n.flushing, q)
	n.unschedule(q)
	q.pd.users--
	q.sendCQ.users--
	q.recvCQ.users--
	delete(q.sendCQ.qps, q)
	delete(q.recvCQ.qps, q)
	delete(q.uar.qps, q)
	q.uar.forgetQP(q.qpn)
	q.uar.put()
	n.count.QPs--
}

// reset is the move to RESET: the queues start over.
func (q *qp) reset() {
	n := q.nic
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	n.addProtocolCounters(q.proto.Counters())
	q.proto.Reset()
	q.state = uapi.QPReset
	q.attr = uapi.QueryQPResp{}
	q.head, q.rung, q.blueFlameBad = 0, false, false
	q.slotNext, q.slotDone = 0, 0
	q.receiveHead = 0
	q.doomed = false
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
	v, ok := q.mem.Load32(q.record + 4*prm.RecordSend)
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
	for sent := 0; ; sent++ {
		if sent == burst {
			n.schedule(q)
			break
		}
		if n.packet == nil {
			n.packet = q.get()
		}
		size := q.proto.Transmit(now, n.packet.Buf)
		if size == 0 {
			break
		}
		p := n.packet
		n.packet = nil
		p.Buf = p.Buf[:size]
		q.send(p)
		did++
	}
	if q.rung && q.sending() && q.hasSlot() {
		n.schedule(q)
	}
	n.setDeadline(q)
	return did
}

func (q *qp) get() *link.Packet { return link.Get(link.MaxSize) }

// send puts a packet on the link of the queue pair's path.
func (q *qp) send(p *link.Packet) {
	n := q.nic
	if !n.portUp {
		n.count.DropPortDown++
		p.Release()
		return
	}
	n.count.PacketsSent++
	n.count.BytesSent += uint64(len(p.Buf))
	p.Dst = q.peer
	p.SrcPort = q.sourcePort
	p.TClass = q.attr.Dest.TrafficClass
	q.out.Send(p)
	n.sent = true
}

// arrive takes in a packet for the queue pair.
func (q *qp) arrive(now time.Time, p *link.Packet) {
	n := q.nic
	if p.Src != q.peer || p.Dst != q.out.Addr() {
		n.count.DropWrongPeer++
		return
	}
	packet, err := roce.Parse(p.Buf)
	switch {
	case err == nil:
		q.proto.Receive(now, &packet)
	case err.(roce.Reason) >= roce.ReasonOpcode:
		n.warn("malformed packet", "qpn", q.qpn, "error", err)
		q.proto.Refuse(packet.BTH)
	default:
		n.count.DropMalformed++
		return
	}
	n.schedule(q)
}
