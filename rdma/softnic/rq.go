package softnic

import (
	"errors"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// postedReceives is how many receives wait in the queue. No doorbell announces
// them: the record is read when one is wanted.
func (q *qp) postedReceives() uint16 {
	if q.receives == 0 {
		return 0
	}
	v, ok := q.nic.load(q.origin, q.mem, q.record+4*prm.RecordReceive, trace.ReceiveQueue, q.qpn)
	if !ok {
		q.nic.warn("receive doorbell record is not mapped", "qpn", q.qpn)
		return 0
	}
	return uint16(prm.BE32(v)) - q.receiveHead
}

// TakeReceive fetches the next receive. One that cannot be used is taken all
// the same, as one of any capacity, and refuses the first bytes put into it.
func (q *qp) TakeReceive() (capacity uint32, ok bool) {
	r := &q.receive
	r.detail, r.fault, r.inline.n = detailNone, rc.OK, 0
	r.addr, r.fetched = 0, 0
	var err error
	if q.srq != nil {
		ok, err = q.srq.take(r)
	} else {
		ok, err = q.take(r)
	}
	if ok && q.nic.tracing() {
		q.traceReceive(err)
	}
	switch {
	case !ok:
		return 0, false
	case err != nil:
		return q.refuseReceive(err)
	}
	total := uint64(0)
	for _, s := range r.segments {
		total += uint64(s.Length)
	}
	return uint32(min(total, maxMessage)), true
}

// take fetches the next receive of the queue pair's own queue; ok is false if none
// is posted. An error is a receive that cannot be used.
func (q *qp) take(r *receive) (ok bool, err error) {
	posted := q.postedReceives()
	if posted == 0 {
		return false, nil
	}
	r.counter = q.receiveHead
	q.receiveHead++
	if uint32(posted) > q.receives {
		return true, bad(detailOverposted, "%d receives posted to a queue of %d", posted, q.receives)
	}
	r.addr = q.buf + (uint64(r.counter)&uint64(q.receives-1))*uint64(q.stride)
	if q.mem.Read(r.addr, r.entry) != nil {
		return true, bad(detailQueueGone, "receive %d", r.counter)
	}
	r.fetched = len(r.entry)
	return true, prm.ParseReceive(r.entry, &r.segments)
}

func (q *qp) refuseReceive(err error) (uint32, bool) {
	r := &q.receive
	r.segments = r.segments[:0]
	r.fault = rc.LocalQPOperation
	var layout *prm.WQEError
	var entry *entryError
	switch {
	case errors.As(err, &layout):
		r.detail = detail(layout.Reason)
	case errors.As(err, &entry):
		r.detail = entry.detail
	}
	q.nic.warn("receive cannot be used", "qpn", q.qpn, "counter", r.counter, "error", err)
	return maxMessage, true
}

// CompleteReceive writes the completion of the receive taken last.
func (q *qp) CompleteReceive(a rc.Arrival) {
	r := &q.receive
	c := prm.Completion{
		QPN:        q.qpn,
		UserIndex:  q.receiveIndex,
		WQECounter: r.counter,
	}
	if a.Syndrome != rc.OK {
		if a.Syndrome == rc.Flushed || r.detail == detailNone {
			r.detail = detailOf(a.Syndrome)
		}
		c.Opcode = prm.CQEResponderError
		c.Syndrome, c.VendorSyndrome = prm.Syndrome(a.Syndrome), uint8(r.detail)
		if a.Syndrome != rc.Flushed {
			q.nic.warn("receive failed", "qpn", q.qpn, "counter", r.counter,
				"syndrome", a.Syndrome, "detail", r.detail)
		}
		q.recvCQ.complete(c)
		return
	}
	switch a.Op {
	case rc.OpWriteImm:
		c.Opcode = prm.CQEWriteImm
	case rc.OpSendImm:
		c.Opcode = prm.CQEReceiveImm
	case rc.OpSendInvalidate:
		c.Opcode = prm.CQEReceiveInv
	default:
		c.Opcode = prm.CQEReceive
	}
	c.ByteCount, c.Imm, c.Solicited = a.Bytes, a.Imm, a.Solicited
	if q.kind == uapi.QPTypeUD {
		q.setSource(&c)
	} else {
		c.RemoteQPN = q.attr.DestQPNum
		c.GRH = q.attr.Dest.IsGlobal != 0
	}
	if n := r.inline.n; n > 0 {
		q.recvCQ.setInline(&c, r.inline.bytes[:n])
	}
	q.recvCQ.complete(c)
}

// flushReceives completes the receives posted to a queue pair in error, and
// returns how many.
func (q *qp) flushReceives() (did int) {
	// A record that is more than the queue ahead is nonsense: no more than the
	// queue holds can be flushed for it.
	posted := min(uint32(q.postedReceives()), q.receives)
	for range posted {
		q.recvCQ.complete(prm.Completion{
			Opcode:         prm.CQEResponderError,
			QPN:            q.qpn,
			UserIndex:      q.userIndex,
			WQECounter:     q.receiveHead,
			Syndrome:       prm.SyndromeFlushed,
			VendorSyndrome: uint8(detailFlushed),
		})
		q.receiveHead++
		did++
	}
	return did
}
