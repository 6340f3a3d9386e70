package rc

import (
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// A message between two queue pairs that one owner can reach need not become packets.
// When nothing is under way from one to the other, what the packets of a SEND and their
// acknowledgement would come to is done at once, and the sequence numbers move on as if
// they had crossed. Whatever is not plain (no receive, a repetition, a READ in between)
// takes the ordinary way, and so does the refusal of a message that was passed.

// Passable returns the work that Pass may carry to peer, which q is connected with, and
// nil if the next one has to go by packets.
func (q *QP) Passable(peer *QP) *Work {
	r, s := &q.request, &peer.respond
	switch w := &r.works; {
	case q.state != ReadyToSend || peer.state != ReadyToSend && peer.state != ReadyToReceive,
		q.unreliable() || peer.unreliable() || q.mtu != peer.mtu:
	case w.head != w.begun || w.begun == w.tail || r.waiting, // works are under way, or none is there
		s.expected.psn() != r.next.psn(), // it has not heard what this end knows it has
		s.open.kind != roce.KindNone || s.silent || s.verdict.isNAK() || s.answers.pending() != nil:
	default:
		if t := w.at(w.head); t.Fault == OK && (t.Op == OpSend || t.Op == OpSendImm) && t.Length <= MaxMessage {
			return &t.Work
		}
	}
	return nil
}

// Pass carries the work that Passable has just returned to peer. data is its message, in
// the sender's memory; if it cannot be copied, Gather is asked whose fault that is. Pass
// returns false, and has done nothing, if the peer has no receive.
func (q *QP) Pass(now time.Time, peer *QP, data []byte) bool {
	r, s := &q.request, &peer.respond
	capacity, ok := s.take()
	if !ok {
		return false
	}
	t := r.works.at(r.works.head)
	r.begin(t)
	s.arrived()
	s.open = message{kind: roce.KindSend, limit: capacity, taken: true, room: capacity, op: OpSend}
	var why *refusal
	if t.Length > capacity {
		why = refuseTooLong
	} else if fault := peer.host.PutReceive(0, data); fault != OK {
		if t.Length > 0 {
			t.Fault = q.host.Gather(&t.Work, 0, make([]byte, t.Length))
		}
		if t.Fault != OK { // the peer waits for the rest of the message
			r.endFaulty()
			return true
		}
		s.open.taken = false
		peer.host.CompleteReceive(Arrival{Op: OpSend, Syndrome: fault})
		why = refuseReceive
	}
	r.sent(now, t, t.packets, true)
	if why != nil {
		s.reject(why, s.expected)
		return true
	}
	s.expected += seq(t.packets)
	a := Arrival{Op: t.Op, Bytes: t.Length, Solicited: t.Solicited}
	if t.Op == OpSendImm {
		a.Imm, a.HasImm = t.Imm, true
	}
	s.complete(a)
	q.counters.Passed++
	r.advance(now, r.next)
	return true
}
