package rc

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// receive takes in a response. Those for packets that are answered already, or
// have never been sent, are stale or forged.
func (r *requester) receive(now time.Time, p *roce.Packet) Fate {
	s := r.oldest.near(p.BTH.PSN())
	if s < r.oldest || s >= r.newest {
		return DropStale
	}
	switch p.Info.Kind {
	case roce.KindReadResponse:
		return r.readResponse(now, s, p)
	case roce.KindAtomicAck:
		return r.atomicResponse(now, s, p)
	}
	return r.acknowledge(now, s, p.AETH().Syndrome())
}

func (r *requester) acknowledge(now time.Time, s seq, verdict roce.Syndrome) Fate {
	switch {
	case verdict.IsAck():
		r.settle(now, s+1)
	case verdict.IsRNR():
		r.q.counters.NotReadyNAKs++
		if r.settle(now, s) {
			r.pause(now, roce.RNRTimer(verdict.Value()))
		}
	case verdict == roce.NAKSequence:
		r.q.counters.SequenceNAKs++
		if r.settle(now, s) {
			r.goBack()
		}
	case verdict == roce.NAKInvalidRequest:
		r.refused(now, s, RemoteInvalidRequest)
	case verdict == roce.NAKRemoteAccess:
		r.refused(now, s, RemoteAccess)
	case verdict == roce.NAKRemoteOperation:
		r.refused(now, s, RemoteOperation)
	default:
		return DropSyndrome
	}
	return Accepted
}

var errRefused = errors.New("peer refused the request")

// refused fails the work of packet s.
func (r *requester) refused(now time.Time, s seq, why Syndrome) {
	if r.settle(now, s) {
		r.q.fail(why, errRefused)
	}
}

// settle takes everything before s as acknowledged. READs and atomics are not: if
// one is still without its answer, that was lost, as the peer answers in order
// (section 9.7.5: an implied NAK). settle then goes back to it and returns
// false. It also does so when the queue pair has failed.
func (r *requester) settle(now time.Time, s seq) bool {
	w := &r.works
	reached := s
	for i := w.head; i != w.begun; i++ {
		t := w.at(i)
		if t.first >= s {
			break
		}
		if t.Op.isAnswered() {
			reached = max(t.first, r.oldest)
			break
		}
	}
	r.advance(now, reached)
	if r.q.state == Error {
		return false
	}
	if reached != s {
		r.q.counters.ImpliedNAKs++
		r.goBack()
	}
	return reached == s
}

// advance makes s the oldest packet without an answer.
func (r *requester) advance(now time.Time, s seq) {
	if s == r.oldest {
		return
	}
	r.oldest = s
	r.left, r.leftRNR, r.silent = r.attr.Retries, r.attr.RNRRetry, 0
	r.wentBack, r.waiting = false, false
	if r.next < s {
		r.seek(s)
	}
	r.arm(now)
	r.retire()
}

var errResponse = errors.New("response does not fit the request")

// readResponse takes in a part of the answer to a READ. Parts come in order. After
// going back the answer to the earlier request may still be under way, so that
// both its next part and the first part of the new answer are good.
func (r *requester) readResponse(now time.Time, s seq, p *roce.Packet) Fate {
	if !r.settle(now, s) {
		return DropGap
	}
	t := r.works.at(r.works.head)
	if t.Op != OpRead || r.endsAnswer(t, s) != p.Info.Last || isNAK(p) {
		r.q.fail(BadResponse, errResponse)
		return DropMisfit
	}
	begins := r.beginsPiece(t, s)
	opens, continues := begins || s == t.asked, !begins
	if p.Info.First && !opens || !p.Info.First && !continues {
		r.goBack()
		return DropGap
	}
	off := uint32(s-t.first) * r.q.mtu
	if len(p.Payload) != int(min(t.Length-off, r.q.mtu)) {
		r.q.fail(BadResponse, errResponse)
		return DropMisfit
	}
	r.deliver(now, t, off, p.Payload)
	return Accepted
}

// atomicResponse takes in the old value of an atomic.
func (r *requester) atomicResponse(now time.Time, s seq, p *roce.Packet) Fate {
	if !r.settle(now, s) {
		return DropGap
	}
	t := r.works.at(r.works.head)
	if !t.Op.isAtomic() || isNAK(p) {
		r.q.fail(BadResponse, errResponse)
		return DropMisfit
	}
	binary.NativeEndian.PutUint64(r.scratch[:], p.AtomicAckETH().Original())
	r.deliver(now, t, 0, r.scratch[:])
	return Accepted
}

// isNAK says that a response denies what it is.
func isNAK(p *roce.Packet) bool {
	h := p.AETH()
	return h != nil && !h.Syndrome().IsAck()
}

// deliver hands the answer to the oldest packet, which is of t, to the host.
func (r *requester) deliver(now time.Time, t *task, off uint32, data []byte) {
	if len(data) > 0 {
		if s := r.q.host.Scatter(&t.Work, off, data); s != OK {
			r.q.fail(s, errLocal)
			return
		}
	}
	if r.next > r.oldest && r.endsAnswer(t, r.oldest) {
		r.reads--
	}
	r.advance(now, r.oldest+1)
}
