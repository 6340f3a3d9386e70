package softnic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// createUC makes a queue pair of the unreliable connection.
func (r *raw) createUC(blocks, recvs uint32, cq *rawCQ) *rawQP {
	return r.createQPAs(blocks, recvs, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.QPType = uapi.QPTypeUC
	})
}

// toUnreliable are the requests of the way to RTS.
func (q *rawQP) toUnreliable(peer *rawQP) []uapi.ModifyQP {
	reset, rtr, rts := q.toInit(), q.toRTR(peer), q.toRTS()
	reset.AttrMask, rtr.AttrMask, rts.AttrMask = uapi.UCResetToInit, uapi.UCInitToRTR, uapi.UCRTRToRTS
	return []uapi.ModifyQP{reset, rtr, rts}
}

func (q *rawQP) connectUnreliable(peer *rawQP) {
	for _, m := range q.toUnreliable(peer) {
		require.NoError(q.r.t, q.r.modify(m))
	}
}

// newUnreliablePair is newRawPair of unreliable connections.
func newUnreliablePair(t testing.TB, cfg Config) *rawPair {
	p := newRawPair(t, cfg)
	p.qa, p.qb = p.a.createUC(16, 16, p.ca), p.b.createUC(16, 16, p.cb)
	p.qa.connectUnreliable(p.qb)
	p.qb.connectUnreliable(p.qa)
	return p
}

func TestUnreliableConnection(t *testing.T) {
	for name, layer := range map[string]verbs.LinkLayer{"Ethernet": verbs.LinkEthernet, "InfiniBand": verbs.LinkInfiniBand} {
		t.Run(name, func(t *testing.T) {
			cfg := private()
			cfg.LinkLayer = layer
			p := newUnreliablePair(t, cfg)
			for i := range p.ma.b[:8192] {
				p.ma.b[i] = byte(i*7 + i>>8)
			}
			p.qb.receive(p.mb.segment(0, 3000), p.mb.segment(10000, 3000))
			w := p.qa.entry(prm.OpSendImm, p.ma, 0, 5000, 0, 0)
			binary.BigEndian.PutUint32(w[12:], 0x1234)
			p.qa.post(w)
			p.ca.wants(prm.CQERequester, 0, 0)
			e := p.cb.wants(prm.CQEReceiveImm, 0, 0)
			require.EqualValues(t, 5000, e.ByteCount())
			require.EqualValues(t, 0x1234, e.Imm())
			require.Equal(t, p.ma.b[:3000], p.mb.b[:3000])
			require.Equal(t, p.ma.b[3000:5000], p.mb.b[10000:12000])

			p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 8000, p.mb.addr+20000, p.mb.key))
			p.ca.wants(prm.CQERequester, 0, 0)
			require.Equal(t, p.ma.b[:8000], p.mb.b[20000:28000])
			p.qb.receive()
			w = p.qa.entry(prm.OpWriteImm, p.ma, 100, 10, p.mb.addr+40000, p.mb.key)
			binary.BigEndian.PutUint32(w[12:], 7)
			p.qa.post(w)
			p.ca.wants(prm.CQERequester, 0, 0)
			e = p.cb.wants(prm.CQEWriteImm, 0, 0)
			require.EqualValues(t, 7, e.Imm())
			require.EqualValues(t, 10, e.ByteCount())
			require.Zero(t, p.nb.Counters().PacketsSent, "nothing is acknowledged")
		})
	}
}

// What cannot be done at the peer is lost, and nobody hears of it.
func TestUnreliableLost(t *testing.T) {
	p := newUnreliablePair(t, private())
	lost := func(w []byte) {
		p.qa.post(w)
		p.ca.wants(prm.CQERequester, 0, 0)
		require.Nil(t, p.cb.next())
		require.EqualValues(t, uapi.QPRTS, p.qb.state())
	}
	lost(p.qa.entry(prm.OpSend, p.ma, 0, 5000, 0, 0))
	lost(p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.mb.addr, 1))
	lost(p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.readOnly.addr, p.readOnly.key))
	index := p.qb.received
	p.qb.receive(p.mb.segment(0, 4999))
	lost(p.qa.entry(prm.OpSend, p.ma, 0, 5000, 0, 0))
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 4999, 0, 0))
	require.Equal(t, index, p.cb.wants(prm.CQEReceive, 0, 0).WQECounter(), "the receive of the lost message")
	require.Equal(t, p.ma.b[:4999], p.mb.b[:4999])
}

// Over a network that loses packets some messages arrive, and all that do are whole.
func TestUnreliableImpaired(t *testing.T) {
	cfg := private()
	cfg.Faults = Faults{Loss: 0.1, Duplicate: 0.05, Corrupt: 0.05}
	cfg.Seed = 7
	p := newUnreliablePair(t, cfg)
	arrived := 0
	for i := range 200 {
		for j := range p.ma.b[:5000] {
			p.ma.b[j] = byte(i)
		}
		if p.qb.received-uint16(arrived) == 0 {
			p.qb.receive(p.mb.segment(0, 5000))
		}
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 5000, 0, 0))
		p.ca.wants(prm.CQERequester, 0, 0)
		if e := p.cb.next(); e != nil {
			arrived++
			require.EqualValues(t, 5000, e.ByteCount())
			for _, v := range p.mb.b[:5000] {
				require.Equal(t, p.mb.b[0], v)
			}
		}
	}
	require.Greater(t, arrived, 20)
	require.Less(t, arrived, 180)
}

func TestUnreliableBadSends(t *testing.T) {
	for _, op := range []prm.Opcode{prm.OpRead, prm.OpFetchAdd, prm.OpSendInv} {
		p := newUnreliablePair(t, private())
		p.qa.post(p.qa.entry(op, p.ma, 0, 8, p.mb.addr, p.mb.key))
		p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detail(prm.UnknownOpcode))
		require.EqualValues(t, uapi.QPErr, p.qa.state())
	}
	p := newUnreliablePair(t, private())
	p.qa.post(p.qa.entry(prm.OpSend, rawMR{addr: p.ma.addr, key: 1}, 0, 8, 0, 0))
	p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalProtection, detailKey)
}

// A receive that cannot be used ends the queue pair that took it.
func TestUnreliableBadReceive(t *testing.T) {
	p := newUnreliablePair(t, private())
	p.qb.receive(p.readOnly.segment(0, 100))
	p.qb.receive(p.mb.segment(0, 100))
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
	p.ca.wants(prm.CQERequester, 0, 0)
	p.cb.wants(prm.CQEResponderError, prm.SyndromeLocalProtection, detailRights)
	p.cb.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed)
	require.EqualValues(t, 0xdd, p.b.readAsync(uapi.EventQPFatal))
}

// A queue pair of one transport does not hear another's packets.
func TestTransportsApart(t *testing.T) {
	p := newUnreliablePair(t, private())
	reliable := p.a.createQP(16, 16, p.ca, p.ca)
	reliable.connect(p.qb)
	p.qb.receive(p.mb.segment(0, 100))
	reliable.post(reliable.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
	require.Eventually(t, func() bool { return p.nb.Counters().DropTransport > 0 }, 10*time.Second, time.Millisecond)
	require.Nil(t, p.cb.next())
}

// The state machine of unreliable connections: every pair of states, and every bit
// of the mask.
func TestUnreliableTransitions(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	q := r.createUC(16, 16, cq)
	testTransitions(t, r, q, uapi.QPTypeUC, q.toUnreliable(q))
}

// Short messages that arrive are in their completions here, too.
func TestUnreliableInline(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(32, false)
	q := r.createQPAs(16, 16, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.QPType = uapi.QPTypeUC
		u.Flags |= prm.QPScatterCQE
	})
	q.connectUnreliable(q)
	m := r.regMR(4096, allAccess)
	copy(m.b, "inline")
	q.receive(m.segment(100, 8))
	q.post(q.entry(prm.OpSend, m, 0, 6, 0, 0))
	for range 2 {
		if e := cq.wait(); e.Opcode() == prm.CQEReceive {
			require.Equal(t, prm.CQEInline32, e.Format())
			require.Equal(t, "inline", string(cq.inline()))
			return
		}
	}
	t.Fatal("nothing has arrived")
}
