package softnic

import (
	"testing"

	"github.com/stretchr/testify/require"

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
