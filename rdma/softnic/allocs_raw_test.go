//go:build !race

package softnic

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// requireNoAllocations posts an entry again and again, with room for what it makes
// at the other end, and wants no allocation for that.
func requireNoAllocations(t *testing.T, from *rawQP, w []byte, queues []*rawCQ, prepare func()) {
	t.Helper()
	w[11] = prm.CQEUpdate
	consume := func(cq *rawCQ) {
		_, e := cq.at(cq.consumed)
		if e.Opcode() == prm.CQEInvalid || uint32(e.Owner()) != cq.consumed/cq.entries&1 || e.Opcode().IsError() {
			t.Fatalf("no completion, or an error: %v %v", e.Opcode(), e.Syndrome())
		}
		cq.consumed++
		cq.store(prm.RecordCI, cq.consumed&prm.MaxNumber)
	}
	message := func() {
		prepare()
		binary.BigEndian.PutUint16(w[1:], from.posted)
		from.post(w)
		for _, cq := range queues {
			consume(cq)
		}
	}
	for range 200 { // every slot once
		message()
	}
	require.Less(t, testing.AllocsPerRun(500, message), 1.0)
}

func TestNoAllocationsForDatagrams(t *testing.T) {
	p := newDatagramPair(t, private())
	s := p.mb.segment(0, 200)
	requireNoAllocations(t, p.qa, p.qa.datagram(prm.OpSend, p.to, p.ma, 0, 100), []*rawCQ{p.ca, p.cb}, func() { p.qb.receive(s) })
}

func TestNoAllocationsForShared(t *testing.T) {
	p := newSharedPair(t, private())
	s := p.mb.segment(0, 200)
	w := p.qs[0].entry(prm.OpSend, p.ma, 0, 100, 0, 0)
	requireNoAllocations(t, p.qs[0], w, []*rawCQ{p.ca, p.cb}, func() { p.srq.receive(s) })
}

func TestNoAllocationsForInline(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	send, recv := r.createCQ(16, false), r.createCQ(16, false)
	q := r.createQPAs(16, 16, send, recv, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		u.Flags |= prm.QPScatterCQE
		core.SqSigAll = 1
	})
	q.connect(q)
	m := r.regMR(4096, allAccess)
	s := m.segment(0, 200)
	requireNoAllocations(t, q, q.entry(prm.OpSend, m, 0, 20, 0, 0), []*rawCQ{send, recv}, func() { q.receive(s) })
	requireNoAllocations(t, q, q.entry(prm.OpRead, m, 0, 20, m.addr, m.key), []*rawCQ{send}, func() {})
}

func TestNoAllocationsForUnreliable(t *testing.T) {
	p := newUnreliablePair(t, private())
	s := p.mb.segment(0, 5000)
	requireNoAllocations(t, p.qa, p.qa.entry(prm.OpSend, p.ma, 0, 5000, 0, 0), []*rawCQ{p.ca, p.cb}, func() { p.qb.receive(s) })
}
