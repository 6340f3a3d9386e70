package rc

import "github.com/farwire/farwire/internal/roce"

// responder is the receiving half: it checks requests in their order, carries
// each out once and owes the peer an answer.
type responder struct {
	q        *QP
	attr     Receiving
	expected seq     // the request to carry out next
	msn      uint32  // messages completed; 24 bits go on the wire
	silent   bool    // a NAK about expected is out: nothing more is said until it comes
	met      bool    // the first request has come
	open     message // the message whose last packet has not come
	spare    spare   // unreliable: the receive of a message that was lost
	answers  answers // to READs and atomics
	verdict  verdict // owed after them
}

func (r *responder) start(a Receiving) {
	*r = responder{q: r.q, attr: a, expected: unfold(a.PSN), answers: r.answers}
	r.answers.init(a.Reads)
}

func (r *responder) reset() {
	*r = responder{q: r.q, answers: r.answers}
	r.answers.clear()
}

// receive takes in a request. It may be the next one, one too early because others
// are lost, or a duplicate (section 9.7.4).
func (r *responder) receive(p *roce.Packet) Fate {
	s := r.expected.near(p.BTH.PSN())
	switch {
	case s > r.expected:
		r.ahead()
		return DropEarly
	case s < r.expected:
		return r.duplicate(s, p)
	}
	r.arrived()
	return r.conclude(p, r.execute(p))
}

// refuse takes in a request whose bytes make no sense.
func (r *responder) refuse(b roce.BTH) {
	s := r.expected.near(b.PSN())
	switch {
	case s > r.expected:
		r.ahead()
	case s < r.expected:
	default:
		r.arrived()
		r.reject(refuseMalformed, r.expected)
	}
}

// ahead asks for the expected packet, once.
func (r *responder) ahead() {
	r.q.counters.OutOfSequence++
	if r.silent {
		return
	}
	r.silent = true
	r.verdict.nak(roce.NAKSequence, r.expected)
}

// arrived notes that the expected packet has come. A NAK about it that is not
// sent yet acknowledges all before, and becomes an acknowledgement.
func (r *responder) arrived() {
	r.silent = false
	if r.verdict.isNAK() {
		r.verdict.ack()
	}
	if r.q.state == ReadyToReceive && !r.met {
		r.met = true
		r.q.host.Event(Event{Kind: Established})
	}
}

// execute carries out the expected request, or says why not.
func (r *responder) execute(p *roce.Packet) *refusal {
	switch open := r.open.kind; {
	case p.Info.First && open != roce.KindNone:
		return refuseInside
	case !p.Info.First && open != p.Info.Kind:
		return refuseOrder
	}
	switch p.Info.Kind {
	case roce.KindSend:
		return r.send(p)
	case roce.KindWrite:
		return r.write(p)
	case roce.KindReadRequest:
		return r.read(p)
	default:
		return r.atomic(p)
	}
}

// conclude acts on what execute has found.
func (r *responder) conclude(p *roce.Packet, why *refusal) Fate {
	switch why {
	case nil:
		if k := p.Info.Kind; k == roce.KindSend || k == roce.KindWrite {
			r.expected++
			if p.BTH.AckRequested() {
				r.verdict.ack()
			}
		}
		return Accepted
	case notReady:
		r.q.counters.OutOfBuffer++
		r.silent = true
		r.verdict.nak(roce.RNRNak(r.attr.RNRTimer), r.expected)
		return DropNotReady
	}
	r.reject(why, r.expected)
	return DropRefused
}

// reject ends the queue pair with a NAK about packet s.
func (r *responder) reject(why *refusal, s seq) {
	r.verdict.nak(why.nak, s)
	r.q.host.Event(Event{Kind: why.event, Cause: why})
	r.q.enterError(Flushed, why.receive, why)
}

// duplicate answers a request that has been carried out before without doing so
// again, but for READs (section 9.7.5).
func (r *responder) duplicate(s seq, p *roce.Packet) Fate {
	r.q.counters.Duplicates++
	switch p.Info.Kind {
	case roce.KindSend, roce.KindWrite:
		if !r.verdict.isNAK() {
			r.verdict.ack()
		}
	case roce.KindReadRequest:
		h := p.RETH()
		if !r.answers.repeatRead(s, span{h.RKey(), h.VA(), h.Length()}, r.q.mtu) {
			return DropForgotten
		}
	default:
		if !r.answers.repeatAtomic(s) {
			return DropForgotten
		}
	}
	return Accepted
}

// dropAnswers forgets the answers that are not sent, and what may only be said
// after them.
func (r *responder) dropAnswers() {
	if r.answers.pending() != nil {
		r.answers.clear()
		r.verdict = verdict{}
	}
}

// abandon ends the open message, and completes its receive with s.
func (r *responder) abandon(s Syndrome) {
	if m := &r.open; m.taken {
		m.taken = false
		r.q.host.CompleteReceive(Arrival{Op: m.op, Syndrome: s})
	}
	if r.spare.taken {
		r.spare = spare{}
		r.q.host.CompleteReceive(Arrival{Op: OpSend, Syndrome: s})
	}
	r.open.kind = roce.KindNone
}
