package ud

import (
	"fmt"

	"github.com/farwire/farwire/internal/rc"
)

// testHost is a host that writes down what it is asked.
type testHost struct {
	log      []string
	payload  []byte
	lost     bool // no way leads anywhere
	gather   rc.Syndrome
	capacity []uint32 // of the receives
	receive  []byte
	header   rc.Syndrome
}

const header = "0123456789012345678901234567890123456789"

func (h *testHost) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// take returns what was written down and forgets it.
func (h *testHost) take() []string {
	log := h.log
	h.log = nil
	return log
}

func (h *testHost) Destination(w *rc.Work) (qpn, qkey uint32, ok bool) {
	return 0x200 + w.Slot, 0x11111111, !h.lost
}

func (h *testHost) Gather(w *rc.Work, off uint32, p []byte) rc.Syndrome {
	copy(p, h.payload[off:])
	return h.gather
}

func (h *testHost) CompleteSend(w *rc.Work, s rc.Syndrome, n uint32) {
	h.note("sent %d: %v, %d", w.Slot, s, n)
}

func (h *testHost) TakeReceive() (uint32, bool) {
	if len(h.capacity) == 0 {
		return 0, false
	}
	n := h.capacity[0]
	h.capacity = h.capacity[1:]
	h.receive = make([]byte, n)
	return n, true
}

func (h *testHost) PutHeader() rc.Syndrome {
	copy(h.receive[:HeaderSize], header)
	return h.header
}

func (h *testHost) PutReceive(off uint32, p []byte) rc.Syndrome {
	_ = h.receive[off+uint32(len(p)):] // no byte outside
	copy(h.receive[off:], p)
	return rc.OK
}

func (h *testHost) CompleteReceive(a rc.Arrival, source uint32) {
	if a.Syndrome != rc.OK {
		h.note("receive failed: %v", a.Syndrome)
		return
	}
	h.note("%v from %#x: %q imm %v %#x solicited %v", a.Op, source, h.receive[HeaderSize:a.Bytes], a.HasImm, a.Imm, a.Solicited)
}

func (h *testHost) Event(e rc.Event) { h.note("event: %v", e.Kind) }

// dropped is the fates of the packets that were dropped.
func dropped(c rc.Counters) map[rc.Fate]uint64 {
	m := map[rc.Fate]uint64{}
	for f, n := range c.Fates {
		if rc.Fate(f) != rc.Accepted && n > 0 {
			m[rc.Fate(f)] = n
		}
	}
	return m
}
