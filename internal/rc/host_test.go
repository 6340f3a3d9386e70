package rc

import (
	"encoding/binary"
	"testing"
)

// testHost is a Host of plain memory that watches every bound the contract sets.
type testHost struct {
	t       testing.TB
	local   map[uint32][]byte // a work's local memory by slot
	regions map[uint32]*region

	receives [][]byte // posted
	inbox    []byte   // the taken one
	taken    bool
	filled   uint32
	again    bool // unreliable: a receive may be filled from the beginning again

	done     []done
	arrivals []Arrival
	data     []string // of the arrivals
	events   []EventKind
	causes   []error
	dead     []uint32 // invalidated keys

	gather, scatter, put func(off uint32) Syndrome // faults to inject, nil for none
	allowed              [64]grant                 // by CheckRemote, the last ones
	grants               int
}

type region struct {
	va     uint64
	mem    []byte
	access Access
}

type done struct {
	Slot     uint32
	Syndrome Syndrome
	Bytes    uint32
}

type grant struct {
	span
	access Access
}

func newTestHost(t testing.TB) *testHost {
	return &testHost{t: t, local: map[uint32][]byte{}, regions: map[uint32]*region{}}
}

func (h *testHost) post(size int) { h.receives = append(h.receives, make([]byte, size)) }

func fault(f func(uint32) Syndrome, off uint32) Syndrome {
	if f == nil {
		return OK
	}
	return f(off)
}

func (h *testHost) Gather(w *Work, off uint32, p []byte) Syndrome {
	if len(p) == 0 || uint64(off)+uint64(len(p)) > uint64(w.Length) {
		h.t.Errorf("gather %d bytes at %d of a work of %d", len(p), off, w.Length)
	}
	copy(p, h.local[w.Slot][off:])
	return fault(h.gather, off)
}

func (h *testHost) Scatter(w *Work, off uint32, p []byte) Syndrome {
	size := w.Length
	if w.Op.isAtomic() {
		size = 8
	}
	if len(p) == 0 || uint64(off)+uint64(len(p)) > uint64(size) {
		h.t.Errorf("scatter %d bytes at %d of a work of %d", len(p), off, size)
	}
	copy(h.local[w.Slot][off:], p)
	return fault(h.scatter, off)
}

func (h *testHost) CompleteSend(w *Work, s Syndrome, n uint32) {
	h.done = append(h.done, done{w.Slot, s, n})
}

func (h *testHost) TakeReceive() (uint32, bool) {
	if h.taken {
		h.t.Error("second receive taken before the first is complete")
	}
	if len(h.receives) == 0 {
		return 0, false
	}
	h.inbox, h.receives = h.receives[0], h.receives[1:]
	h.taken, h.filled = true, 0
	return uint32(len(h.inbox)), true
}

func (h *testHost) PutReceive(off uint32, p []byte) Syndrome {
	if h.again && off == 0 {
		h.filled = 0
	}
	if !h.taken || off != h.filled || uint64(off)+uint64(len(p)) > uint64(len(h.inbox)) {
		h.t.Errorf("%d bytes at %d of a receive of %d filled to %d, taken %v", len(p), off, len(h.inbox), h.filled, h.taken)
	}
	h.filled += uint32(copy(h.inbox[off:], p))
	return fault(h.put, off)
}

func (h *testHost) CompleteReceive(a Arrival) {
	if !h.taken {
		h.t.Error("completion of a receive that is not taken")
	}
	if a.Syndrome == OK && a.Op.isSend() && a.Bytes != h.filled {
		h.t.Errorf("receive of %d bytes completes with %d", h.filled, a.Bytes)
	}
	h.taken = false
	h.arrivals = append(h.arrivals, a)
	h.data = append(h.data, string(h.inbox[:h.filled]))
}

// find returns the memory at va if the key allows a there.
func (h *testHost) find(rkey uint32, va uint64, n int, a Access) []byte {
	r := h.regions[rkey]
	if r == nil || r.access&a == 0 || va < r.va || va-r.va > uint64(len(r.mem)) {
		return nil
	}
	m := r.mem[va-r.va:]
	if len(m) < n {
		return nil
	}
	return m[:n:n]
}

func (h *testHost) CheckRemote(rkey uint32, va uint64, n uint32, a Access) bool {
	if n == 0 {
		h.t.Error("check of an empty range")
	}
	if h.find(rkey, va, int(n), a) == nil {
		return false
	}
	h.allowed[h.grants%len(h.allowed)] = grant{span{rkey, va, n}, a}
	h.grants++
	return true
}

// granted returns the memory, and complains if CheckRemote has not allowed it.
func (h *testHost) granted(rkey uint32, va uint64, n int, a Access) []byte {
	for _, g := range h.allowed {
		if g.access == a && g.contains(span{rkey, va, uint32(n)}) {
			return h.find(rkey, va, n, a)
		}
	}
	h.t.Errorf("access %b to %d bytes at %#x by key %#x without leave", a, n, va, rkey)
	return nil
}

func (h *testHost) WriteRemote(rkey uint32, va uint64, p []byte) bool {
	m := h.granted(rkey, va, len(p), RemoteWrite)
	copy(m, p)
	return m != nil
}

func (h *testHost) ReadRemote(rkey uint32, va uint64, p []byte) bool {
	m := h.granted(rkey, va, len(p), RemoteRead)
	copy(p, m)
	return m != nil
}

func (h *testHost) Atomic(rkey uint32, va uint64, op Op, swapAdd, compare uint64) (uint64, bool) {
	m := h.granted(rkey, va, 8, RemoteAtomic)
	if m == nil || va%8 != 0 {
		return 0, false
	}
	old := binary.NativeEndian.Uint64(m)
	switch {
	case op == OpFetchAdd:
		binary.NativeEndian.PutUint64(m, old+swapAdd)
	case op == OpCompareSwap && old == compare:
		binary.NativeEndian.PutUint64(m, swapAdd)
	}
	return old, true
}

func (h *testHost) Invalidate(rkey uint32) bool {
	_, ok := h.regions[rkey]
	delete(h.regions, rkey)
	h.dead = append(h.dead, rkey)
	return ok
}

func (h *testHost) Event(e Event) {
	h.events = append(h.events, e.Kind)
	h.causes = append(h.causes, e.Cause)
}
