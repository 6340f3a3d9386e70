package rc

import "github.com/farwire/farwire/internal/roce"

// message is a SEND or WRITE on its way in. off never exceeds limit, which the
// receive or the checked range of the region has set.
type message struct {
	kind  roce.Kind // KindNone between messages
	off   uint32    // bytes that have come
	limit uint32    // SEND: capacity of the receive; WRITE: length of the message
	va    uint64    // WRITE
	rkey  uint32    // WRITE
	taken bool      // a receive of the host is to be completed
	room  uint32    // that the receive has
	op    Op        // as which, if it fails
}

// send takes in a packet of a SEND. The first one takes a receive.
func (r *responder) send(p *roce.Packet) *refusal {
	m, host := &r.open, r.q.host
	if p.Info.First {
		capacity, ok := r.take()
		if !ok {
			return notReady
		}
		*m = message{kind: roce.KindSend, limit: capacity, taken: true, room: capacity, op: OpSend}
	}
	n := uint32(len(p.Payload))
	switch {
	case !p.Info.Payload.OK(len(p.Payload), int(r.q.mtu)):
		return refuseLength
	case n > m.limit-m.off:
		return refuseTooLong
	}
	if s := host.PutReceive(m.off, p.Payload); s != OK {
		m.taken = false
		host.CompleteReceive(Arrival{Op: OpSend, Syndrome: s})
		return refuseReceive
	}
	m.off += n
	if !p.Info.Last {
		return nil
	}
	a := Arrival{Op: OpSend, Bytes: m.off, Solicited: p.BTH.Solicited()}
	switch p.Info.Headers {
	case roce.HasImmDt:
		a.Op, a.Imm, a.HasImm = OpSendImm, p.ImmDt().Imm(), true
	case roce.HasIETH:
		a.Op, a.Imm = OpSendInvalidate, p.IETH().RKey()
		if !host.Invalidate(a.Imm) {
			return refuseInvalidate
		}
	}
	r.complete(a)
	return nil
}

// write takes in a packet of a WRITE. The first one is checked for the whole
// message. A receive is taken by the last one, if that has immediate data.
func (r *responder) write(p *roce.Packet) *refusal {
	m, host := &r.open, r.q.host
	if p.Info.First && r.attr.Access&RemoteWrite == 0 {
		return refuseRight
	}
	if p.Info.Immediate() {
		capacity, ok := r.take()
		if !ok {
			return notReady
		}
		m.taken, m.room, m.op = true, capacity, OpWriteImm
	}
	if p.Info.First {
		h := p.RETH()
		m.kind, m.off, m.limit, m.va, m.rkey = roce.KindWrite, 0, h.Length(), h.VA(), h.RKey()
	}
	n, rest := uint32(len(p.Payload)), m.limit-m.off
	if !p.Info.Payload.OK(len(p.Payload), int(r.q.mtu)) ||
		m.limit > MaxMessage || n > rest || p.Info.Last != (n == rest) {
		return refuseLength
	}
	if p.Info.First && m.limit > 0 && !host.CheckRemote(m.rkey, m.va, m.limit, RemoteWrite) {
		return refuseKey
	}
	if n > 0 && !host.WriteRemote(m.rkey, m.va+uint64(m.off), p.Payload) {
		return refuseKey
	}
	m.off += n
	if !p.Info.Last {
		return nil
	}
	a := Arrival{Op: OpWriteImm, Bytes: m.off, HasImm: true, Solicited: p.BTH.Solicited()}
	if m.taken {
		a.Imm = p.ImmDt().Imm()
	}
	r.complete(a)
	return nil
}

// complete ends the open message, and its receive if it has one.
func (r *responder) complete(a Arrival) {
	r.msn++
	taken := r.open.taken
	r.open = message{}
	if taken {
		r.q.host.CompleteReceive(a)
	}
}
