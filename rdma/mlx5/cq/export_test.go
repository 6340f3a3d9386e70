package cq

import (
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// Moderate asks for events to come for so many completions, or after so many microseconds,
// as ibv_modify_cq does.
func (q *Queue) Moderate(completions, period uint16) error {
	in := uapi.ExModifyCQ{CQHandle: q.kernel.Handle, AttrMask: uapi.CQModerate, Attr: uapi.CqModeration{CqCount: completions, CqPeriod: period}}
	return q.dev.Context().Invoke("modify completion queue", uapi.ObjectDevice, uapi.MethodInvokeWrite,
		verbs.AttrConst(uapi.AttrWriteCmd, uapi.CmdExModifyCQ), verbs.AttrIn(uapi.AttrCoreIn, uapi.Bytes(&in)))
}

// Exhaust tells the NIC that the queue is full of entries which nobody has taken, although
// it has room: the next completion overruns it.
func (q *Queue) Exhaust() {
	q.mu.Lock()
	defer q.mu.Unlock()
	mmio.Release(q.consumed, prm.BE32((q.ring.Record()-q.ring.Size())&(1<<24-1)))
}
