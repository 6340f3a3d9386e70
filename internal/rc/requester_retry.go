package rc

import (
	"errors"
	"time"
)

// retry is what a requester remembers about trouble. Each fresh answer of the
// peer makes it as new.
//
// The transport timer (section 9.7.6) runs exactly while a packet that asks for
// an answer is outstanding. It starts when the first such packet goes out,
// starts anew with each answer, and stops while the peer is not ready. The standard
// lets it take one to four times the timeout: see patience.
type retry struct {
	due      time.Time // the transport timer; zero while it is stopped
	resume   time.Time // end of the wait, if waiting
	waiting  bool      // the peer was not ready: nothing is sent until resume
	wentBack bool      // a NAK has been obeyed: more of them tell nothing new
	silent   uint8     // times the transport timer ended without an answer
	left     uint8     // times to go back without an answer
	leftRNR  uint8     // waits without an answer
}

var (
	errTimeout  = errors.New("no answer from the peer")
	errSequence = errors.New("packets or answers are lost")
	errNotReady = errors.New("peer has no receive")
)

// patience is how long the transport timer may become. A timeout below it is taken once,
// then twice, then four times, so that one loss is repaired soon and a peer that gets no
// processor for a second, which may happen to a NIC in software, is not given up. Longer
// ones are long enough.
const patience = 300 * time.Millisecond

// deadline returns when expire has something to do.
func (r *requester) deadline() (time.Time, bool) {
	if r.waiting {
		return r.resume, true
	}
	return r.due, !r.due.IsZero()
}

func (r *requester) expire(now time.Time) {
	switch {
	case r.waiting:
		r.waiting = now.Before(r.resume)
	case !r.due.IsZero() && !now.Before(r.due):
		r.q.counters.Timeouts++
		r.silent++
		r.wentBack = false
		r.again(errTimeout)
	}
}

// arm starts the transport timer, or stops it if no answer is owed.
func (r *requester) arm(now time.Time) {
	r.due = time.Time{}
	if r.wait > 0 && r.asked > r.oldest {
		r.due = now.Add(max(r.wait, min(r.wait<<min(r.silent, 2), patience)))
	}
}

// goBack sends everything from the oldest packet on once more, because the peer
// misses a packet or this end an answer. Packets that were under way tell of the
// same loss many times; only the first counts, until there is an answer.
func (r *requester) goBack() {
	if r.wentBack || r.waiting {
		return
	}
	r.wentBack = true
	r.again(errSequence)
}

// again goes back if that is still allowed, else it fails the oldest work.
func (r *requester) again(cause error) {
	if r.left == 0 {
		r.q.fail(RetriesExceeded, cause)
		return
	}
	r.left--
	r.q.counters.WentBack++
	r.rewind()
}

// pause waits as a receiver that is not ready has asked, then goes on at the
// oldest packet. The peer lives, so its silence counts from the beginning again.
func (r *requester) pause(now time.Time, d time.Duration) {
	if r.waiting {
		return
	}
	if r.attr.RNRRetry != foreverRNR {
		if r.leftRNR == 0 {
			r.q.fail(NotReadyRetriesExceeded, errNotReady)
			return
		}
		r.leftRNR--
	}
	r.left, r.silent = r.attr.Retries, 0
	r.wentBack = false
	r.waiting, r.resume = true, now.Add(d)
	r.rewind()
}

func (r *requester) rewind() {
	r.seek(r.oldest)
	r.asked = r.oldest
	r.due = time.Time{}
}

// seek makes s, which is oldest, the next packet to send.
func (r *requester) seek(s seq) {
	w := &r.works
	r.next, r.packet, r.reads = s, 0, 0
	for w.current = w.head; w.current != w.begun; w.current++ {
		t := w.at(w.current)
		if t.Fault != OK || s < t.end() {
			r.packet = uint32(s - t.first)
			return
		}
	}
}
