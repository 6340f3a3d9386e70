package rc

import "github.com/farwire/farwire/internal/roce"

// verdict is the acknowledgement owed after all answers: one for everything up to
// the newest request carried out, or a NAK. A burst of requests is answered by
// one verdict if the owner does not pull packets in between.
type verdict struct {
	owed     bool
	syndrome roce.Syndrome
	at       seq // the packet a NAK is about
}

func (v *verdict) ack() { *v = verdict{owed: true, syndrome: roce.Ack} }

func (v *verdict) nak(s roce.Syndrome, at seq) { *v = verdict{owed: true, syndrome: s, at: at} }

func (v *verdict) isNAK() bool { return v.owed && !v.syndrome.IsAck() }

// transmit writes the next answer or acknowledgement, and returns 0 if there is
// none. Answers go in the order of sequence numbers, the verdict after them
// (section 9.7.5), because it covers everything before it.
func (r *responder) transmit(p []byte) int {
	if a := r.answers.pending(); a != nil {
		if n := r.answer(a, p); n > 0 {
			return n
		}
	}
	v := r.verdict
	if !v.owed {
		return 0
	}
	r.verdict = verdict{}
	if v.syndrome.IsAck() {
		v.at = r.expected - 1
	}
	h := roce.Header{
		Opcode:   roce.Acknowledge,
		DestQP:   r.q.peer,
		PSN:      v.at.psn(),
		Syndrome: v.syndrome,
		MSN:      r.msn,
	}
	_, size := h.Put(p, 0)
	return size
}

// responseOpcodes are the READ responses by place in the message.
var responseOpcodes = [4]roce.Opcode{
	roce.ReadResponseMiddle, roce.ReadResponseFirst, roce.ReadResponseLast, roce.ReadResponseOnly,
}

// answer writes the next packet of a. It returns 0 if the memory is gone: then the
// queue pair has failed, and owes a NAK.
func (r *responder) answer(a *answer, p []byte) int {
	h := roce.Header{
		Opcode:   roce.AtomicAcknowledge,
		DestQP:   r.q.peer,
		PSN:      a.next.psn(),
		Syndrome: roce.Ack,
		MSN:      r.msn,
		Original: a.value,
	}
	var off, n uint32
	if !a.atomic {
		place := 0
		if a.next == a.start {
			place |= firstPacket
		}
		if a.next == a.stop-1 {
			place |= lastPacket
		}
		h.Opcode = responseOpcodes[place]
		off = uint32(a.next-a.start) * r.q.mtu
		n = min(a.part.length-off, r.q.mtu)
	}
	payload, size := h.Put(p, int(n))
	if n > 0 && !r.q.host.ReadRemote(a.part.rkey, a.part.va+uint64(off), payload) {
		r.gone(a.next)
		return 0
	}
	a.next++
	if a.sent() {
		r.answers.skip()
	}
	return size
}

// gone ends the queue pair because the memory of a READ cannot be read any more at
// packet s of the answer.
func (r *responder) gone(s seq) {
	r.dropAnswers()
	if r.q.state != Error {
		r.reject(refuseKey, s)
	}
}
