package ud

import (
	"errors"
	"time"

	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
)

// Headroom is how many bytes more than the MTU the buffer given to [QP.Transmit]
// must have.
const Headroom = 64

// Params are fixed for the life of a queue pair.
type Params struct {
	QPN   uint32 // its own number, 24 bits
	MTU   int    // bytes of the longest message: 256, 512, 1024, 2048 or 4096
	Depth int    // how many works the send queue holds before it has to grow; 0 means 16
}

const defaultDepth = 16

var (
	errFailed  = errors.New("moved to error by its owner")
	errLocal   = errors.New("work cannot be carried out")
	errReceive = errors.New("receive cannot be written")
)

// QP is one datagram queue pair. It is not safe for concurrent use: whoever owns it
// calls its methods one at a time, and pulls packets with Transmit after anything
// else it has done.
type QP struct {
	host     Host
	params   Params
	state    rc.State
	qkey     uint32
	psn      uint32
	works    rc.Queue[rc.Work]
	counters rc.Counters
}

// New makes a queue pair in rc.Reset. It keeps h.
func New(h Host, p Params) *QP {
	if p.Depth <= 0 {
		p.Depth = defaultDepth
	}
	q := &QP{host: h, params: p}
	q.works = rc.NewQueue[rc.Work](p.Depth)
	return q
}

// StartReceive moves from rc.Reset to rc.ReadyToReceive: datagrams with this key are
// taken. It returns rc.ErrState in another state.
func (q *QP) StartReceive(qkey uint32) error {
	if q.state != rc.Reset {
		return rc.ErrState
	}
	q.qkey = qkey
	q.state = rc.ReadyToReceive
	return nil
}

// StartSend moves from rc.ReadyToReceive to rc.ReadyToSend; psn is the sequence number
// of the first datagram, of which 24 bits count. It returns rc.ErrState in another
// state.
func (q *QP) StartSend(psn uint32) error {
	if q.state != rc.ReadyToReceive {
		return rc.ErrState
	}
	q.psn = roce.AddPSN(psn, 0)
	q.state = rc.ReadyToSend
	return nil
}

// SetKey changes the key, from the next datagram on.
func (q *QP) SetKey(qkey uint32) { q.qkey = qkey }

// State returns the state.
func (q *QP) State() rc.State { return q.state }

// Counters returns what has been counted since the last Reset.
func (q *QP) Counters() rc.Counters { return q.counters }

// Post appends a work to the send queue, of operation rc.OpNop, rc.OpSend or
// rc.OpSendImm. It never fails: in rc.Error the work is completed at once with
// rc.Flushed. It copies w.
func (q *QP) Post(w *rc.Work) {
	*q.works.Push() = *w
	if q.state == rc.Error {
		q.flush(rc.Flushed)
	}
}

// Transmit writes the next datagram to p, from BTH to pad, and returns its length; 0
// means that there is none. p has room for the MTU and Headroom. The work is
// completed when its packet is written.
func (q *QP) Transmit(_ time.Time, p []byte) int {
	for q.state == rc.ReadyToSend && !q.works.Empty() {
		if n := q.send(q.works.First(), p); n > 0 {
			return n
		}
	}
	return 0
}

// send carries out the oldest work, and returns 0 if that needs no packet.
func (q *QP) send(w *rc.Work, p []byte) (size int) {
	switch {
	case w.Fault != rc.OK:
		q.enterError(w.Fault, errLocal)
		return 0
	case w.Op == rc.OpNop:
		q.complete(0)
		return 0
	case w.Op != rc.OpSend && w.Op != rc.OpSendImm:
		q.enterError(rc.LocalQPOperation, errLocal)
		return 0
	case w.Length > uint32(q.params.MTU):
		q.enterError(rc.LocalLength, errLocal)
		return 0
	}
	qpn, qkey, ok := q.host.Destination(w)
	h := roce.Header{
		Opcode:    roce.DatagramSend,
		Solicited: w.Solicited,
		DestQP:    qpn,
		PSN:       q.psn,
		QKey:      qkey,
		SourceQP:  q.params.QPN,
		Imm:       w.Imm,
	}
	if w.Op == rc.OpSendImm {
		h.Opcode = roce.DatagramSendImmediate
	}
	payload, size := h.Put(p, int(w.Length))
	if w.Length > 0 {
		if s := q.host.Gather(w, 0, payload); s != rc.OK {
			q.enterError(s, errLocal)
			return 0
		}
	}
	q.psn = roce.AddPSN(q.psn, 1)
	q.complete(w.Length)
	if !ok {
		return 0
	}
	q.counters.RequestsSent++
	return size
}

func (q *QP) complete(n uint32) {
	w := q.works.First()
	q.works.Pop()
	q.host.CompleteSend(w, rc.OK, n)
}

// Receive takes in one packet for this queue pair, as roce.ParseAs returned it
// without error for roce.Datagram. p and its bytes are used during the call only.
func (q *QP) Receive(_ time.Time, p *roce.Packet) {
	q.counters.RequestsReceived++
	q.counters.Fates[q.take(p)]++
}

// take acts on a datagram.
func (q *QP) take(p *roce.Packet) rc.Fate {
	if f := q.admits(p); f != rc.Accepted {
		return f
	}
	capacity, ok := q.host.TakeReceive()
	if !ok {
		q.counters.OutOfBuffer++
		return rc.DropNotReady
	}
	n := HeaderSize + uint32(len(p.Payload))
	source := p.DETH().SourceQP()
	if s := q.put(p.Payload, capacity, n); s != rc.OK {
		q.host.CompleteReceive(rc.Arrival{Op: rc.OpSend, Syndrome: s}, source)
		q.host.Event(rc.Event{Kind: rc.Fatal, Cause: errReceive})
		q.enterError(rc.Flushed, errReceive)
		return rc.DropRefused
	}
	a := rc.Arrival{Op: rc.OpSend, Bytes: n, Solicited: p.BTH.Solicited()}
	if p.Info.Immediate() {
		a.Op, a.Imm, a.HasImm = rc.OpSendImm, p.ImmDt().Imm(), true
	}
	q.host.CompleteReceive(a, source)
	return rc.Accepted
}

func (q *QP) put(payload []byte, capacity, n uint32) rc.Syndrome {
	if n > capacity {
		return rc.LocalLength
	}
	if s := q.host.PutHeader(); s != rc.OK {
		return s
	}
	if len(payload) == 0 {
		return rc.OK
	}
	return q.host.PutReceive(HeaderSize, payload)
}

// admits says whether a datagram is for this queue pair: it can receive, is of the
// sender's partition, has its key, and knows such a long message.
func (q *QP) admits(p *roce.Packet) rc.Fate {
	const members = 0x7fff
	switch {
	case q.state != rc.ReadyToReceive && q.state != rc.ReadyToSend:
		return rc.DropState
	case p.BTH.PKey()&members != roce.DefaultPKey&members:
		return rc.DropPartition
	case p.DETH().QKey() != q.qkey:
		return rc.DropKey
	case len(p.Payload) > q.params.MTU:
		return rc.DropLength
	}
	return rc.Accepted
}

// Refuse takes in a packet that roce.ParseAs found malformed, but with a BTH. Nobody is
// told.
func (q *QP) Refuse(roce.BTH) {
	q.counters.RequestsReceived++
	q.counters.Fates[rc.DropMalformed]++
}

// Deadline returns false: there is nothing to wait for.
func (q *QP) Deadline() (t time.Time, ok bool) { return t, false }

// Expire does nothing.
func (q *QP) Expire(time.Time) {}

// Fail moves to rc.Error as the owner wants it: works and receives are flushed.
func (q *QP) Fail() {
	if q.state != rc.Error {
		q.enterError(rc.Flushed, errFailed)
	}
}

// Reset moves to rc.Reset and forgets everything, without a single completion.
func (q *QP) Reset() {
	q.state = rc.Reset
	q.counters = rc.Counters{}
	q.works.Clear()
}

// enterError ends the queue pair. The oldest work completes with oldest.
func (q *QP) enterError(oldest rc.Syndrome, cause error) {
	q.state = rc.Error
	q.flush(oldest)
	q.host.Event(rc.Event{Kind: rc.FlushReceives, Cause: cause})
}

// flush completes everything in the queue: the oldest work with s, the rest flushed.
func (q *QP) flush(s rc.Syndrome) {
	for !q.works.Empty() {
		w := q.works.First()
		q.works.Pop()
		q.host.CompleteSend(w, s, 0)
		s = rc.Flushed
	}
}
