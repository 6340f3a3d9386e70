package softnic

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// inlineLoop is a queue pair connected to itself that asks for data in
// completions.
func inlineLoop(t testing.TB, cfg Config, size uint32, flags uint32, all uint8) (*raw, *rawCQ, *rawQP) {
	r := newRaw(t, newTestNIC(t, cfg))
	cq := r.createCQOf(size, 32, true)
	q := r.createQPAs(32, 32, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		u.Flags |= flags
		core.SqSigAll = all
	})
	q.connect(q)
	return r, cq, q
}

// Short messages that arrive are in their completions, and memory stays as it was.
func TestInlineReceives(t *testing.T) {
	for _, tt := range []struct {
		size   uint32
		most   int
		format prm.CQEFormat
	}{{64, 32, prm.CQEInline32}, {128, 64, prm.CQEInline64}} {
		r, cq, q := inlineLoop(t, private(), tt.size, prm.QPScatterCQE, 0)
		m := r.regMR(8192, allAccess)
		for i := range m.b[:4096] {
			m.b[i] = byte(i*7 + 1)
		}
		for _, op := range []prm.Opcode{prm.OpSend, prm.OpSendImm} {
			for n := range tt.most + 3 {
				clear(m.b[4096:])
				q.receive(m.segment(4096, 10), m.segment(5000, 100))
				w := q.entry(op, m, 0, max(n, 1), 0, 0)
				if n == 0 {
					w = w[:prm.Unit]
					prm.PutCtrl(w, new(q.ctrl(op, 1)))
				}
				binary.BigEndian.PutUint32(w[12:], 0x1234)
				q.post(w)
				e := cq.wait()
				require.EqualValues(t, n, e.ByteCount())
				if op == prm.OpSendImm {
					require.EqualValues(t, 0x1234, e.Imm())
				}
				if n == 0 || n > tt.most {
					require.Equal(t, prm.CQEPlain, e.Format())
					require.Equal(t, m.b[:min(n, 10)], m.b[4096:][:min(n, 10)])
				} else {
					require.Equal(t, tt.format, e.Format())
					require.Equal(t, m.b[:n], cq.inline())
					require.Equal(t, make([]byte, 4096), m.b[4096:])
				}
				require.Equal(t, q.qpn, e.QPN())
				require.Equal(t, prm.CQEPlain, cq.wants(prm.CQERequester, 0, 0).Format())
			}
		}
		// Data that the receive has no room for is too long all the same.
		q.receive(m.segment(0, 3))
		q.post(q.entry(prm.OpSend, m, 0, 4, 0, 0))
		cq.wants(prm.CQEResponderError, prm.SyndromeLocalLength, detailNone)
	}
}

// What short reads and atomics fetch is in their completions if all entries
// complete, or if the driver allows it; entries that do not complete bring it to
// memory.
func TestInlineFetches(t *testing.T) {
	for name, tt := range map[string]struct {
		flags uint32
		all   uint8
		want  bool
	}{
		"not asked":     {0, 1, false},
		"not all":       {prm.QPScatterCQE, 0, false},
		"all":           {prm.QPScatterCQE, 1, true},
		"allowed":       {prm.QPScatterCQE | prm.QPAllowScatterCQE, 0, true},
		"only allowed":  {prm.QPAllowScatterCQE, 1, false},
		"allowed twice": {prm.QPScatterCQE | prm.QPAllowScatterCQE, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, cq, q := inlineLoop(t, private(), 64, tt.flags, tt.all)
			m := r.regMR(8192, allAccess)
			for i := range m.b[:4096] {
				m.b[i] = byte(i*7 + 1)
			}
			fetch := func(op prm.Opcode, n int, inline bool) {
				t.Helper()
				clear(m.b[4096:])
				before := append([]byte(nil), m.b[:n]...)
				q.post(q.entry(op, m, 4096, n, m.addr, m.key))
				e := cq.wants(prm.CQERequester, 0, 0)
				require.EqualValues(t, n, e.ByteCount())
				require.Equal(t, inline, e.Format() == prm.CQEInline32)
				if inline {
					require.Equal(t, before, cq.inline())
					require.Equal(t, make([]byte, 4096), m.b[4096:])
				} else {
					require.Equal(t, before, m.b[4096:][:n])
				}
			}
			for _, n := range []int{1, 8, 31, 32} {
				fetch(prm.OpRead, n, tt.want)
			}
			fetch(prm.OpRead, 33, false)
			fetch(prm.OpRead, 3000, false)
			fetch(prm.OpFetchAdd, 8, tt.want)
			fetch(prm.OpCompareSwap, 8, tt.want)

			silent := q.entry(prm.OpRead, m, 4096, 8, m.addr, m.key)
			silent[11] = 0
			q.post(silent)
			q.nop(prm.CQEUpdate)
			cq.wants(prm.CQERequester, 0, 0)
			require.Equal(t, m.b[:8], m.b[4096:4104])
		})
	}
}

// Held completions keep their data.
func TestInlineHeld(t *testing.T) {
	r, cq, q := inlineLoop(t, private(), 64, prm.QPScatterCQE, 0)
	m := r.regMR(4096, allAccess)
	r.nic.HoldCompletions()
	for i := range 4 {
		m.b[0] = byte(i)
		q.receive(m.segment(100, 8))
		w := q.entry(prm.OpSend, m, 0, 8, 0, 0)
		w[11] = 0
		q.post(w)
	}
	r.nic.ReleaseCompletions()
	for i := range 4 {
		cq.wants(prm.CQEReceive, 0, 0)
		require.EqualValues(t, i, cq.inline()[0])
	}
}

// The shared receive queue's messages are no exception.
func TestInlineShared(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQOf(128, 32, false)
	s := r.createSRQ(8)
	q := r.createQPAs(16, 0, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.IsSRQ, core.SRQHandle = 1, s.handle
		u.Flags |= prm.QPScatterCQE
	})
	q.connect(q)
	m := r.regMR(4096, allAccess)
	copy(m.b, "inline")
	s.receive(m.segment(100, 8))
	q.post(q.entry(prm.OpSend, m, 0, 6, 0, 0))
	require.Equal(t, prm.CQEInline64, cq.wants(prm.CQEReceive, 0, 0).Format())
	require.Equal(t, "inline", string(cq.inline()))
}
