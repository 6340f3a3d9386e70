package connectx

import "github.com/farwire/farwire/internal/ifc"

// Queries answer with the context that an object was made with. What the device keeps to
// itself, such as its place in a queue, is not in it.

func (d *Device) queryCQ(r *request) error {
	return answerContext(r, d.cqs, "completion queue", ifc.Context)
}

// moderation is what of a completion queue can be modified, by its bit in ModifiedCQ
// (linux/mlx5/cq.h and, since 6.10, device.h: MLX5_CQ_MODIFY_*).
var moderation = map[uint64]ifc.Field{1 << 0: ifc.CompletionQueue.Period, 1 << 1: ifc.CompletionQueue.MaxCount, 1 << 4: ifc.CompletionQueue.PeriodMode}

// modifyCQ keeps moderation. It bounds how late events come, and the NIC's are never late.
func (d *Device) modifyCQ(r *request) error {
	k, ok := d.cqs[r.object()]
	switch {
	case !ok:
		return refuse(ifc.BadResource, "no completion queue %#x", r.object())
	case r.modifier() != 0:
		return refuse(ifc.BadParameter, "modifier %d: completion queues have the size that they are made with", r.modifier())
	}
	selected := ifc.ModifiedCQ.Select.Get(r.in)
	for bit, field := range moderation {
		if selected&bit != 0 {
			field.Put(k.context[:], field.Get(r.in[ifc.Context:]))
		}
		selected &^= bit
	}
	if selected != 0 {
		return refuse(ifc.BadParameter, "modification %#x of a completion queue", selected)
	}
	d.cqs[r.object()] = k
	return nil
}

func (d *Device) queryMKey(r *request) error {
	return answerContext(r, d.mkeys, "memory key", ifc.Context)
}

func answerContext(r *request, table map[uint32]kept, what string, to int) error {
	k, ok := table[r.object()]
	if !ok {
		return refuse(ifc.BadResource, "no %s %#x", what, r.object())
	}
	copy(r.out[to:], k.context[:])
	return nil
}

func (d *Device) queryEQ(r *request) error {
	q := d.events.get(r.object() & 0xff)
	if q == nil {
		return refuse(ifc.BadResource, "no event queue %d", r.object()&0xff)
	}
	copy(r.out[ifc.Context:], q.kept.context[:])
	return nil
}

// poolReady is the state of a receive memory pool that works (mlx5_ifc.h,
// MLX5_RMPC_STATE_RDY).
const poolReady = 1

func (d *Device) queryRMP(r *request) error {
	if err := answerContext(r, d.srqs, "receive memory pool", ifc.RMPQueue); err != nil {
		return err
	}
	limit, err := d.function.SRQLimit(r.object())
	if err != nil {
		return err
	}
	ifc.ReceivePool.State.Put(r.out[ifc.RMPContext:], poolReady)
	ifc.WorkQueue.LimitWatermark.Put(r.out[ifc.RMPQueue:], uint64(limit))
	return nil
}

// modifyRMP arms the limit of a shared receive queue; nothing else of one is modified.
func (d *Device) modifyRMP(r *request) error {
	if !ifc.ModifiedPool.Limit.Bool(r.in) {
		return nil
	}
	return d.function.LimitSRQ(r.object(), uint32(ifc.WorkQueue.LimitWatermark.Get(r.in[ifc.RMPQueue:])))
}
