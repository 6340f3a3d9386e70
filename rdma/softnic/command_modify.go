package softnic

import (
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// transition is what a change of state needs and allows in its mask.
type transition struct{ required, optional uint32 }

// transitions are those of reliable connections that ConnectX NICs have: the
// kernel's table (ib_core, qp_state_table) without SQD, which the mlx5 driver
// does not offer. Moves to RESET and, from all but RESET, to ERR need the state
// alone.
//
//	RESET -> INIT -> RTR -> RTS    INIT -> INIT    RTS -> RTS
var transitions = map[[2]uint8]transition{
	{uapi.QPReset, uapi.QPInit}: {uapi.RCResetToInit, 0},
	{uapi.QPInit, uapi.QPInit}:  {uapi.QPAttrState, uapi.QPAttrAccessFlags | uapi.QPAttrPkeyIndex | uapi.QPAttrPort},
	{uapi.QPInit, uapi.QPRTR}:   {uapi.RCInitToRTR, uapi.RCInitToRTROptional},
	{uapi.QPRTR, uapi.QPRTS}:    {uapi.RCRTRToRTS, uapi.RCRTRToRTSOptional},
	{uapi.QPRTS, uapi.QPRTS}: {uapi.QPAttrState, uapi.QPAttrCurState | uapi.QPAttrAccessFlags |
		uapi.QPAttrMinRnrTimer | uapi.QPAttrAltPath | uapi.QPAttrPathMigState},
}

// datagramTransitions are those of datagram queue pairs.
var datagramTransitions = map[[2]uint8]transition{
	{uapi.QPReset, uapi.QPInit}: {uapi.UDResetToInit, 0},
	{uapi.QPInit, uapi.QPInit}:  {uapi.QPAttrState, uapi.QPAttrPkeyIndex | uapi.QPAttrPort | uapi.QPAttrQkey},
	{uapi.QPInit, uapi.QPRTR}:   {uapi.UDInitToRTR, uapi.UDInitToRTROptional},
	{uapi.QPRTR, uapi.QPRTS}:    {uapi.UDRTRToRTS, uapi.UDRTRToRTSOptional},
	{uapi.QPRTS, uapi.QPRTS}:    {uapi.QPAttrState, uapi.QPAttrCurState | uapi.QPAttrQkey},
}

// unreliableTransitions are those of unreliable connections.
var unreliableTransitions = map[[2]uint8]transition{
	{uapi.QPReset, uapi.QPInit}: {uapi.UCResetToInit, 0},
	{uapi.QPInit, uapi.QPInit}:  {uapi.QPAttrState, uapi.QPAttrAccessFlags | uapi.QPAttrPkeyIndex | uapi.QPAttrPort},
	{uapi.QPInit, uapi.QPRTR}:   {uapi.UCInitToRTR, uapi.UCInitToRTROptional},
	{uapi.QPRTR, uapi.QPRTS}:    {uapi.UCRTRToRTS, uapi.UCRTRToRTSOptional},
	{uapi.QPRTS, uapi.QPRTS}: {uapi.QPAttrState, uapi.QPAttrCurState | uapi.QPAttrAccessFlags |
		uapi.QPAttrAltPath | uapi.QPAttrPathMigState},
}

// transitionOf is the entry of the table of reliable connections; ok is false if
// there is no such move.
func transitionOf(from, to uint8) (t transition, ok bool) {
	return transitionFor(uapi.QPTypeRC, from, to)
}

// transitionFor is transitionOf for queue pairs of a type.
func transitionFor(kind, from, to uint8) (t transition, ok bool) {
	if to == uapi.QPReset || to == uapi.QPErr && from != uapi.QPReset {
		return transition{required: uapi.QPAttrState}, true
	}
	table := transitions
	switch kind {
	case uapi.QPTypeUC:
		table = unreliableTransitions
	case uapi.QPTypeUD:
		table = datagramTransitions
	}
	t, ok = table[[2]uint8{from, to}]
	return t, ok
}

// Masks that the two commands know; other bits are EOPNOTSUPP.
const (
	legacyMask   = uapi.QPAttrDestQpn<<1 - 1
	extendedMask = uapi.QPAttrRateLimit<<1 - 1
)

func (c *call) modifyQP(inv uapi.Invoke) error {
	req, err := core[uapi.ModifyQP](c, inv.Core)
	if err != nil {
		return err
	}
	if req.AttrMask&^uint32(legacyMask) != 0 {
		return refuse(enotsup, "attribute mask %#x", req.AttrMask)
	}
	return c.modify(&req)
}

func (c *call) modifyQPEx(inv uapi.Invoke) error {
	req, err := core[uapi.ExModifyQP](c, inv.Core)
	if err != nil {
		return err
	}
	switch {
	case req.Base.AttrMask&^uint32(extendedMask) != 0:
		return refuse(enotsup, "attribute mask %#x", req.Base.AttrMask)
	case req.Reserved != 0:
		return refuse(enotsup, "reserved field is set")
	case req.Base.AttrMask&uapi.QPAttrRateLimit != 0:
		return refuse(einval, "rate limit of this type of queue pair")
	}
	if err := c.modify(&req.Base); err != nil {
		return err
	}
	return out(c, inv.Reply, uapi.ExModifyQPResp{ResponseLength: uint32(uapi.Size[uapi.ExModifyQPResp]())})
}

func (c *call) modify(req *uapi.ModifyQP) error {
	const minUdata = 16
	if n := c.uhwIn.Len(); n != 0 && n < minUdata {
		return refuse(einval, "driver request of %d bytes", n)
	}
	q, err := lookupLegacy[*qp](c, uapi.ObjectQP, req.QPHandle)
	if err != nil {
		return err
	}
	return q.modify(req)
}

// modify changes a queue pair as the request says, by whichever command.
func (q *qp) modify(req *uapi.ModifyQP) error {
	from, to := q.state, q.state
	if req.AttrMask&uapi.QPAttrState != 0 {
		to = req.QPState
	}
	if req.AttrMask&uapi.QPAttrCurState != 0 && req.CurQPState != from {
		return refuse(einval, "current state %d, queue pair is in %d", req.CurQPState, from)
	}
	t, ok := transitionFor(q.kind, from, to)
	missing, excess := t.required&^req.AttrMask, req.AttrMask&^(t.required|t.optional)
	if !ok || missing != 0 || excess != 0 {
		return refuse(einval, "queue pair %#x from %v to %v with mask %#x: missing %#x, excess %#x", q.qpn,
			verbs.QPState(from), verbs.QPState(to), req.AttrMask, missing, excess)
	}
	if err := q.checkAttributes(req); err != nil {
		return err
	}
	return q.move(req, to)
}

func (c *call) queryQP(inv uapi.Invoke) error {
	req, err := core[uapi.QueryQP](c, inv.Core)
	if err != nil {
		return err
	}
	q, err := lookupLegacy[*qp](c, uapi.ObjectQP, req.QPHandle)
	if err != nil {
		return err
	}
	return out(c, inv.Reply, q.query())
}
