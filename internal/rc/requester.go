package rc

import (
	"errors"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// requester is the sending half: it turns works into request packets and keeps
// them until the peer has answered.
//
//	   acknowledged   sent, outstanding   sent before going back   never sent
//	----------------|-------------------|------------------------|-----------
//	           oldest                next                      newest
//
// oldest is the first packet without an answer, next the packet that goes out
// next, newest the first that has never gone out. Usually next is newest.
// Going back sets next to oldest, and everything from there is sent again.
type requester struct {
	q      *QP
	attr   Sending
	wait   time.Duration // the transport timer, 0 for none
	window seq
	room
	every seq    // an acknowledgement is wanted for one in so many packets
	piece uint32 // packets of one READ request's answer at most: see askable

	works  works
	oldest seq
	next   seq
	newest seq
	packet uint32 // index of packet next in the current task
	asked  seq    // after the newest packet that wants an answer, of those before next
	reads  int    // requests from oldest to next that are answered with data

	retry
	scratch [8]byte // an atomic's answer on its way to the host
}

func (r *requester) init(q *QP, depth, window int) {
	r.q = q
	r.works.Queue = NewQueue[task](depth)
	r.window = seq(window)
	r.every = max(r.window/4, 1)
	r.piece = uint32(max(r.window/2, 1))
}

func (r *requester) start(a Sending) {
	r.attr = a
	r.wait = a.timeout()
	r.oldest = unfold(a.PSN)
	r.next, r.newest, r.asked = r.oldest, r.oldest, r.oldest
	r.packet, r.reads = 0, 0
	r.retry = retry{left: a.Retries, leftRNR: a.RNRRetry}
}

func (r *requester) reset() {
	r.works.clear()
	r.retry = retry{}
	r.room = room{}
}

// flush completes everything in the queue: the oldest work with s, the rest flushed.
func (r *requester) flush(s Syndrome) {
	w := &r.works
	for ; w.head != w.tail; w.head++ {
		r.q.host.CompleteSend(&w.at(w.head).Work, s, 0)
		s = Flushed
	}
	w.clear()
	r.retry = retry{}
}

// transmit writes the next request packet, and returns 0 if none may go now.
func (r *requester) transmit(now time.Time, p []byte) int {
	if r.waiting {
		return 0
	}
	w := &r.works
	for w.current != w.tail {
		t := w.at(w.current)
		if w.current == w.begun {
			if t.Fence && r.reads > 0 {
				return 0
			}
			r.begin(t)
		}
		switch {
		case t.Fault != OK:
			r.endFaulty()
			return 0
		case !r.mayGo(t):
			return 0
		case t.packets > 0:
			return r.send(now, t, p)
		}
		w.current++
		r.retire()
	}
	return 0
}

// begin gives a task its sequence numbers, or a fault if it cannot be carried out.
func (r *requester) begin(t *task) {
	r.works.begun++
	t.first = r.next
	switch {
	case t.Fault != OK, t.Op == OpNop:
	case !t.Op.known(), t.Op.isAnswered() && r.attr.Reads == 0, r.q.unreliable() && !t.Op.isUnreliable():
		t.Fault = LocalQPOperation
	case t.Op.isAtomic():
		t.packets = 1
	case t.Length > MaxMessage:
		t.Fault = LocalLength
	default:
		t.packets = roce.Packets(t.Length, int(r.q.mtu))
	}
}

// mayGo says whether the next packet, which is of t, may go out: there is room in
// the window for it and its answer, and the peer can keep another answer. READs
// and atomics stall the queue, as its order is kept.
func (r *requester) mayGo(t *task) bool {
	if t.packets == 0 {
		return true
	}
	n := seq(1)
	if t.Op == OpRead {
		n = seq(r.askable(t))
	}
	if r.next-r.oldest+n > r.window || t.Op.isAnswered() && r.reads >= r.attr.Reads {
		return false
	}
	return r.hasRoom(n)
}

var errLocal = errors.New("work cannot be carried out")

// endFaulty fails the queue pair if the current task is faulty and everything
// before it has completed.
func (r *requester) endFaulty() {
	w := &r.works
	if w.head != w.current || w.current == w.begun {
		return
	}
	if s := w.at(w.current).Fault; s != OK {
		r.q.fail(s, errLocal)
	}
}

// retire completes the tasks whose packets are all answered.
func (r *requester) retire() {
	w := &r.works
	for w.head != w.current {
		t := w.at(w.head)
		if t.end() > r.oldest {
			return
		}
		w.head++
		r.q.host.CompleteSend(&t.Work, OK, t.bytes())
	}
	r.endFaulty()
}
