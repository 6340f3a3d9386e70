package rc

import (
	"errors"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// Headroom is how many bytes more than the MTU the buffer given to
// [QP.Transmit] must have.
const Headroom = 64

// Errors of the methods that change the state.
var (
	ErrState   = errors.New("queue pair is in the wrong state")
	ErrInvalid = errors.New("invalid queue pair attribute")

	errFailed = errors.New("moved to error by its owner")
)

// QP is one connected queue pair. It is not safe for concurrent use:
// whoever owns it calls its methods one at a time, and pulls packets with
// Transmit after anything else it has done. It never looks at a clock: now must
// not go back from one call to the next.
type QP struct {
	host     Host
	service  roce.Transport
	state    State
	mtu      uint32 // bytes of payload in a full packet
	peer     uint32 // the peer's queue pair number
	request  requester
	respond  responder
	answered bool // the packet sent last was the responder's
	counters Counters
}

// New makes a queue pair in Reset. It keeps h.
func New(h Host, p Params) *QP {
	if p.Depth <= 0 {
		p.Depth = defaultDepth
	}
	if p.Window <= 0 {
		p.Window = DefaultWindow
	}
	q := &QP{host: h}
	if p.Unreliable {
		q.service = roce.UnreliableConnection
	}
	q.request.init(q, p.Depth, min(p.Window, maxWindow))
	q.respond.q = q
	return q
}

// StartReceive moves from Reset to ReadyToReceive. It returns ErrState or an
// error that wraps ErrInvalid, and then changes nothing.
func (q *QP) StartReceive(a Receiving) error {
	if q.state != Reset {
		return ErrState
	}
	if err := a.check(); err != nil {
		return err
	}
	q.mtu, q.peer = uint32(a.MTU), a.PeerQPN
	q.respond.start(a)
	q.state = ReadyToReceive
	return nil
}

// StartSend moves from ReadyToReceive to ReadyToSend; works posted before now
// are due. It returns ErrState or an error that wraps ErrInvalid, and then
// changes nothing.
func (q *QP) StartSend(a Sending) error {
	if q.state != ReadyToReceive {
		return ErrState
	}
	if err := a.check(); err != nil {
		return err
	}
	q.request.start(a)
	q.state = ReadyToSend
	return nil
}

// SetAccess changes what the peer may do, from its next request on.
func (q *QP) SetAccess(a Access) { q.respond.attr.Access = a }

// SetRNRTimer changes how long the peer is asked to wait for a receive; code is 0 to 31.
func (q *QP) SetRNRTimer(code uint8) { q.respond.attr.RNRTimer = code & 31 }

// State returns the state.
func (q *QP) State() State { return q.state }

// Counters returns what has been counted since the last Reset.
func (q *QP) Counters() Counters { return q.counters }

// WentBack is that of the Counters.
func (q *QP) WentBack() uint64 { return q.counters.WentBack }

// Post appends a work to the send queue. It never fails: in Error the work is
// completed at once with Flushed, and more works than Params.Depth make the
// queue grow. It copies w.
func (q *QP) Post(w *Work) {
	q.request.works.push(w)
	if q.state == Error {
		q.request.flush(Flushed)
	}
}

// unreliable says that nothing is acknowledged.
func (q *QP) unreliable() bool { return q.service == roce.UnreliableConnection }

// Receive takes in one packet for this queue pair, as roce.ParseAs returned it
// without error for its transport. Addresses and ICRC have been checked. p and its bytes are used
// during the call only.
func (q *QP) Receive(now time.Time, p *roce.Packet) {
	request := p.Info.Request()
	if request {
		q.counters.RequestsReceived++
	} else {
		q.counters.ResponsesReceived++
	}
	q.counters.Fates[q.take(now, p, request)]++
}

// take acts on a packet.
func (q *QP) take(now time.Time, p *roce.Packet, request bool) Fate {
	if f := q.admits(p.BTH, request); f != Accepted {
		return f
	}
	switch {
	case !request:
		return q.request.receive(now, p)
	case q.unreliable():
		return q.respond.receiveUnreliable(p)
	}
	return q.respond.receive(p)
}

// Refuse takes in a packet that roce.ParseAs found malformed, but with a BTH: a
// reserved opcode, headers cut off, an impossible pad. A request in its turn is
// answered with a NAK and ends the queue pair, all else is dropped.
func (q *QP) Refuse(b roce.BTH) {
	info := b.Opcode().Info()
	request := info.Request() || info.Kind == roce.KindNone
	if !request {
		q.counters.ResponsesReceived++
	} else {
		q.counters.RequestsReceived++
	}
	f := q.admits(b, request)
	if f == Accepted {
		f = DropMalformed
		switch {
		case !request:
		case q.unreliable():
			q.respond.refuseUnreliable(b)
		default:
			q.respond.refuse(b)
		}
	}
	q.counters.Fates[f]++
}

// admits says whether a packet may be looked at in this state and partition
// (section 9.6); else it is dropped silently. This end is a full member of
// the default partition, so that the peer may be a limited one.
func (q *QP) admits(b roce.BTH, request bool) Fate {
	const members = 0x7fff
	switch {
	case b.PKey()&members != roce.DefaultPKey&members:
		return DropPartition
	case q.state == ReadyToSend, q.state == ReadyToReceive && request:
		return Accepted
	}
	return DropState
}

// Transmit writes the next packet to send to p, from BTH to pad, and returns its
// length; 0 means that there is nothing to send now. p has room for the MTU and
// Headroom. The payload is gathered during the call. Answers and requests take
// turns. In Error it still hands out what is owed to the peer: the NAK that says
// why, and the answers before it.
func (q *QP) Transmit(now time.Time, p []byte) int {
	if q.answered {
		if n := q.transmitRequest(now, p); n > 0 {
			return n
		}
		return q.transmitAnswer(p)
	}
	if n := q.transmitAnswer(p); n > 0 {
		return n
	}
	return q.transmitRequest(now, p)
}

func (q *QP) transmitRequest(now time.Time, p []byte) int {
	if q.state != ReadyToSend {
		return 0
	}
	n := q.request.transmit(now, p)
	if n > 0 {
		q.answered = false
		q.counters.RequestsSent++
	}
	return n
}

func (q *QP) transmitAnswer(p []byte) int {
	n := q.respond.transmit(p)
	if n > 0 {
		q.answered = true
		q.counters.ResponsesSent++
	}
	return n
}

// Deadline returns when to call Expire next, if no packet comes before; ok is
// false if there is nothing to wait for.
func (q *QP) Deadline() (t time.Time, ok bool) {
	if q.state != ReadyToSend {
		return time.Time{}, false
	}
	return q.request.deadline()
}

// Expire does what is due at now: nothing, if called before the deadline.
func (q *QP) Expire(now time.Time) {
	if q.state == ReadyToSend {
		q.request.expire(now)
	}
}

// Fail moves to Error as the owner wants it: works and receives are flushed, and
// READs of the peer that are not answered yet never will be. In Error it has only
// the last effect.
func (q *QP) Fail() {
	if q.state == Error {
		q.respond.dropAnswers()
		return
	}
	q.fail(Flushed, errFailed)
}

// Reset moves to Reset and forgets everything, works and a taken receive too,
// without a single completion.
func (q *QP) Reset() {
	q.state = Reset
	q.answered = false
	q.counters = Counters{}
	q.request.reset()
	q.respond.reset()
}

// fail ends the queue pair for a reason on this side: the oldest work completes
// with s, everything after it is flushed.
func (q *QP) fail(s Syndrome, cause error) {
	q.respond.dropAnswers()
	q.enterError(s, Flushed, cause)
}

// enterError is the only way into Error. The oldest work completes with oldest,
// the receive that an unfinished message has taken with taken.
func (q *QP) enterError(oldest, taken Syndrome, cause error) {
	q.state = Error
	q.respond.abandon(taken)
	q.request.flush(oldest)
	q.host.Event(Event{Kind: FlushReceives, Cause: cause})
}
