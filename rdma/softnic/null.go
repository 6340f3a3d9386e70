package softnic

import (
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
)

// isNull reports whether the entry that was just fetched is one to complete at
// once, as Config.Null has it. What fails, and what is behind that, is the
// protocol's.
func (q *qp) isNull(w *rc.Work) bool {
	return q.nic.cfg.Null && w.Fault == rc.OK && q.state == uapi.QPRTS && q.slotNext-q.slotDone == 1
}

// completeNull completes an entry, and the receive that its message would fill if
// the queue pair were its own peer.
func (q *qp) completeNull(w *rc.Work) {
	hasImm := q.slots[w.Slot].Opcode.HasImm()
	q.CompleteSend(w, rc.OK, w.Length)
	if q.kind == uapi.QPTypeUD || !w.Op.TakesReceive() {
		return
	}
	capacity, ok := q.TakeReceive()
	if !ok {
		return
	}
	a := rc.Arrival{Op: w.Op, Bytes: w.Length, Imm: w.Imm, HasImm: hasImm, Solicited: w.Solicited, Syndrome: q.receive.fault}
	if a.Syndrome == rc.OK && w.Op != rc.OpWriteImm && w.Length > capacity {
		a.Syndrome = rc.LocalLength
	}
	q.CompleteReceive(a)
	if a.Syndrome != rc.OK {
		q.nic.doom(q)
	}
}
