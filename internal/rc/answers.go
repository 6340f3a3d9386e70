package rc

import "github.com/farwire/farwire/internal/roce"

// answers are the READs and atomics of the peer: those to be answered, and those
// answered already, in case the answer is lost and the request comes again. A
// ring under free-running counters, the oldest at head. As many as the peer may
// have outstanding are enough: it asks for another one only after it has the
// answer to the oldest.
type answers struct {
	ring    []answer // a power of two long
	limit   uint32
	head    uint32
	sending uint32 // the oldest with something to send; tail if none has
	tail    uint32
}

// An answer to one READ or atomic request.
type answer struct {
	first, end seq    // the sequence numbers of the answer
	whole      span   // READ: what was asked for
	atomic     bool   // an atomic: there is only value
	value      uint64 // what it found

	// What is being sent: all of it or, after a loss, a tail of it.
	start    seq  // its first packet
	next     seq  // packet to send next
	stop     seq  // after its last packet
	part     span // what the packets from start to stop carry
	repeated bool // all of it was sent before
}

// span is a piece of memory the peer may read.
type span struct {
	rkey   uint32
	va     uint64
	length uint32
}

// contains says whether o is a part of s, by the same key. An o before s is as far
// from it as an address can be.
func (s span) contains(o span) bool {
	return s.rkey == o.rkey && o.length <= s.length && o.va-s.va <= uint64(s.length-o.length)
}

func (a *answer) begin(start, stop seq, part span) {
	a.start, a.next, a.stop, a.part = start, start, stop, part
}

func (a *answer) sent() bool { return a.next == a.stop }

func (h *answers) init(limit int) {
	n := 1
	for n < limit {
		n *= 2
	}
	if len(h.ring) < n {
		h.ring = make([]answer, n)
	}
	h.limit = uint32(limit)
	h.clear()
}

func (h *answers) clear() { h.head, h.sending = h.tail, h.tail }

func (h *answers) at(i uint32) *answer { return &h.ring[i&uint32(len(h.ring)-1)] }

// full says that there is no room for one more answer, because the peer still
// waits for the oldest: it has more outstanding than it may.
func (h *answers) full() bool {
	if h.tail-h.head < h.limit {
		return false
	}
	return h.limit == 0 || !h.at(h.head).sent() && !h.at(h.head).repeated
}

// add puts in one more answer, all of which is to be sent. If need be the oldest is
// forgotten. The answers must not be full.
func (h *answers) add(a answer) {
	if h.tail-h.head == h.limit {
		if h.sending == h.head {
			h.sending++
			h.skip()
		}
		h.head++
	}
	a.begin(a.first, a.end, a.whole)
	*h.at(h.tail) = a
	h.tail++
}

// pending returns the oldest answer that has something to send, or nil.
func (h *answers) pending() *answer {
	if h.sending == h.tail {
		return nil
	}
	return h.at(h.sending)
}

// skip moves sending on to an answer that has something to send.
func (h *answers) skip() {
	for h.sending != h.tail && h.at(h.sending).sent() {
		h.sending++
	}
}

// repeatRead sends a READ's answer again, from packet s on. It returns false if no
// READ is remembered of which the request is the same or a part.
func (h *answers) repeatRead(s seq, part span, mtu uint32) bool {
	i, a := h.find(s)
	if a == nil || a.atomic || !a.whole.contains(part) {
		return false
	}
	stop := s + seq(roce.Packets(part.length, int(mtu)))
	if stop > a.end {
		return false
	}
	h.repeat(i, a)
	a.begin(s, stop, part)
	return true
}

// repeatAtomic sends the saved value of an atomic again.
func (h *answers) repeatAtomic(s seq) bool {
	i, a := h.find(s)
	if a == nil || !a.atomic {
		return false
	}
	h.repeat(i, a)
	a.begin(a.first, a.end, a.whole)
	return true
}

// repeat puts an answer in its place among those to send.
func (h *answers) repeat(i uint32, a *answer) {
	a.repeated = a.repeated || a.sent()
	if i-h.head < h.sending-h.head {
		h.sending = i
	}
}

// find returns the answer to which packet s belongs.
func (h *answers) find(s seq) (uint32, *answer) {
	for i := h.head; i != h.tail; i++ {
		if a := h.at(i); a.first <= s && s < a.end {
			return i, a
		}
	}
	return 0, nil
}
