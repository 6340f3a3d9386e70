package rc

import "github.com/farwire/farwire/internal/roce"

// spare is a receive that was taken for a message of which packets are missing. The
// next message gets it.
type spare struct {
	taken bool
	room  uint32
}

// take takes a receive for the message that begins, or that ends if it is a WRITE.
func (r *responder) take() (capacity uint32, ok bool) {
	if s := r.spare; s.taken {
		r.spare = spare{}
		return s.room, true
	}
	return r.q.host.TakeReceive()
}

// receiveUnreliable takes in a request of the unreliable connection (section 9.8.2).
// Nobody is asked for packets that are missing: their message is dropped, and
// what comes is looked at again from the next first packet on, whatever its number.
// So is a message that cannot be carried out.
func (r *responder) receiveUnreliable(p *roce.Packet) Fate {
	if !r.follows(p.BTH) || p.Info.First {
		r.drop()
	}
	if !p.Info.First && r.open.kind != p.Info.Kind {
		r.drop()
		return DropLost
	}
	var why *refusal
	if p.Info.Kind == roce.KindSend {
		why = r.send(p)
	} else {
		why = r.write(p)
	}
	switch why {
	case nil:
		return Accepted
	case notReady:
		r.q.counters.OutOfBuffer++
		r.drop()
		return DropNotReady
	case refuseReceive:
		r.q.host.Event(Event{Kind: why.event, Cause: why})
		r.q.enterError(Flushed, why.receive, why)
	default:
		r.drop()
	}
	return DropRefused
}

// refuseUnreliable takes in a request whose bytes make no sense.
func (r *responder) refuseUnreliable(b roce.BTH) {
	r.follows(b)
	r.drop()
}

// follows says whether the packet is the one expected, and expects the one after it.
func (r *responder) follows(b roce.BTH) bool {
	r.arrived()
	s := r.expected.near(b.PSN())
	missing := s != r.expected
	if missing {
		r.q.counters.OutOfSequence++
	}
	r.expected = s + 1
	return !missing
}

// drop forgets the open message. What it has written stays, and its receive is the
// next one's.
func (r *responder) drop() {
	if r.open.taken {
		r.spare = spare{taken: true, room: r.open.room}
	}
	r.open = message{}
}
