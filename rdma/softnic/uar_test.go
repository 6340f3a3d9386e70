package softnic

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// A doorbell that was rung before its queue was destroyed is in order, also if the NIC
// was busy then and comes to look only afterwards. Queues that share the page are served
// all the same.
func TestDoorbellBeforeDestroy(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	unused, gone := r.createCQ(4, false), r.createQP(4, 4, cq, cq)
	gone.connect(gone)
	nop := func(q *rawQP) {
		w := make([]byte, prm.Unit)
		c := q.ctrl(prm.OpNop, 1)
		prm.PutCtrl(w, &c)
		q.post(w)
	}
	r.nic.mu.Lock() // the NIC is busy
	nop(gone)
	q.half = 1 // the register's other half
	nop(q)
	r.nic.mu.Unlock()
	_, _, err := r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: gone.handle}), 4, nil, 0)
	require.NoError(t, err)
	require.Equal(t, q.qpn, cq.wait().QPN())

	v := prm.ArmValue(0, false, 0)
	unused.store(prm.RecordArm, v)
	r.nic.mu.Lock()
	r.ring(0, prm.ArmRegister, prm.ArmDoorbell(v, unused.cqn))
	r.nic.mu.Unlock()
	_, _, err = r.write(uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: unused.handle}), 8, nil, 0)
	require.NoError(t, err)
	require.Zero(t, r.nic.Counters().BadDoorbells)
}

// A NIC that is late may find the next entry's first word in a register before the rest
// of the entry is there. It must neither take what it finds for an entry, nor the rest,
// when it is there, for one that came with a later doorbell.
func TestBlueFlameHalfStored(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	m := r.regMR(4096, allAccess)
	page := r.pages[0].Mem[prm.SendRegister:]
	send := func(i int) []byte {
		q.receive(m.segment(1000, 8))
		return q.entry(prm.OpSend, m, 100*i, 8, 0, 0)
	}
	finish := func(entries int) {
		for range 2 * entries {
			require.False(t, cq.wait().Opcode().IsError())
		}
		require.Zero(t, r.nic.Counters().BadDoorbells)
	}
	r.nic.mu.Lock() // the NIC is busy
	first := send(0)
	q.put(first)
	copy(page[8:], first[8:])
	q.doorbell(first)
	q.put(send(1))
	third := send(2)
	q.put(third)
	nic := r.nic.qps[q.qpn]
	for range 2 { // it goes on with the first two entries, which the record tells it of
		nic.post(q.posted)
	}
	atomic.StoreUint64(hostmem.Word64(page), prm.SendDoorbell(third)) // and here comes the third
	r.nic.unlock()
	copy(page[8:], third[8:])
	r.pages[0].Wake(prm.SendRegister)
	finish(3)

	q.half = 0
	q.post(send(3)) // with a plain doorbell
	finish(1)
}

// A NIC that reports no register size has one register: libmlx5 takes the size for the
// distance of a page's registers, so that all of them are the first.
func TestRegistersWithoutBlueFlame(t *testing.T) {
	cfg := private()
	cfg.NoBlueFlame, cfg.StaticUAR = true, true
	r := newRaw(t, newTestNIC(t, cfg))
	cq := r.createCQ(64, false)
	q := r.createQP(4, 4, cq, cq)
	for q.register%prm.PageRegisters == 0 {
		q = r.createQP(4, 4, cq, cq)
	}
	q.connect(q)
	q.static(t)
	w := make([]byte, prm.Unit)
	nop := func(at int) {
		c := q.ctrl(prm.OpNop, 1)
		prm.PutCtrl(w, &c)
		q.base = at
		q.post(w)
	}
	nop(0)
	require.Equal(t, q.qpn, cq.wait().QPN())
	require.Zero(t, r.nic.Counters().BadDoorbells)
	nop(halfSize)
	require.EqualValues(t, 1, r.nic.Counters().BadDoorbells)
}
