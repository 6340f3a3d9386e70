package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// qpRequest is a queue pair wanted, by whichever command.
type qpRequest struct {
	user           uint64
	kind           uint64
	pd             *pd
	sendCQ, recvCQ *cq
	srq            *srq // nil: receives of its own
	caps           uapi.QPCap
	signalAll      bool
	async          *eventFile
}

func (c *call) createQP(inv uapi.Invoke) error {
	req, err := core[uapi.CreateQP](c, inv.Core)
	if err != nil {
		return err
	}
	q, h, err := c.newQPLegacy(req)
	if err != nil {
		return err
	}
	return c.orDrop(h, out(c, inv.Reply, createQPResponse(q, h)))
}

func (c *call) createQPEx(inv uapi.Invoke) error {
	req, err := core[uapi.ExCreateQP](c, inv.Core)
	if err != nil {
		return err
	}
	switch {
	case req.CompMask != 0:
		return refuse(enotsup, "comp_mask %#x", req.CompMask)
	case uint64(req.CreateFlags)&^createFlags(uint64(req.QPType)) != 0 || req.RwqIndTblHandle != 0 || req.SourceQpn != 0:
		return refuse(einval, "creation flags %#x", req.CreateFlags)
	}
	q, h, err := c.newQPLegacy(uapi.CreateQP{
		UserHandle: req.UserHandle, PDHandle: req.PDHandle,
		SendCQHandle: req.SendCQHandle, RecvCQHandle: req.RecvCQHandle,
		SRQHandle: req.SRQHandle, MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR,
		MaxSendSGE: req.MaxSendSGE, MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData,
		SqSigAll: req.SqSigAll, QPType: req.QPType, IsSRQ: req.IsSRQ, Reserved: req.Reserved,
	})
	if err != nil {
		return err
	}
	resp := uapi.ExCreateQPResp{Base: createQPResponse(q, h)}
	resp.ResponseLength = uint32(uapi.Size[uapi.ExCreateQPResp]())
	return c.orDrop(h, out(c, inv.Reply, resp))
}

func (c *call) newQPLegacy(req uapi.CreateQP) (q *qp, h uint32, err error) {
	r := qpRequest{
		user: req.UserHandle, kind: uint64(req.QPType), signalAll: req.SqSigAll != 0, async: c.file.async,
		caps: uapi.QPCap{MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR, MaxSendSGE: req.MaxSendSGE,
			MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData},
	}
	if req.Reserved != 0 {
		return nil, 0, refuse(einval, "reserved field is set")
	}
	if req.IsSRQ != 0 {
		if r.srq, err = lookupLegacy[*srq](c, uapi.ObjectSRQ, req.SRQHandle); err != nil {
			return nil, 0, err
		}
	}
	if r.pd, err = lookupLegacy[*pd](c, uapi.ObjectPD, req.PDHandle); err != nil {
		return nil, 0, err
	}
	if r.sendCQ, err = lookupLegacy[*cq](c, uapi.ObjectCQ, req.SendCQHandle); err != nil {
		return nil, 0, err
	}
	if r.recvCQ, err = lookupLegacy[*cq](c, uapi.ObjectCQ, req.RecvCQHandle); err != nil {
		return nil, 0, err
	}
	return c.newQP(r)
}

func createQPResponse(q *qp, h uint32) uapi.CreateQPResp {
	return uapi.CreateQPResp{
		QPHandle: h, Qpn: q.qpn,
		MaxSendWR: q.caps.MaxSendWR, MaxRecvWR: q.caps.MaxRecvWR,
		MaxSendSGE: q.caps.MaxSendSGE, MaxRecvSGE: q.caps.MaxRecvSGE, MaxInlineData: q.caps.MaxInlineData,
	}
}

// Creation flags (ib_user_ioctl_verbs.h, enum ib_uverbs_qp_create_flags): of the
// native method, and of datagrams, of which none go to many.
const (
	nativeSignalAll     = 1 << 12 // IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	noMulticastLoopback = 1 << 1  // IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
)

// createFlags are those that queue pairs of a type may have.
func createFlags(kind uint64) uint64 {
	if kind == uapi.QPTypeUD {
		return noMulticastLoopback
	}
	return 0
}

func (c *call) createQPNative() error {
	if err := c.needContext(); err != nil {
		return err
	}
	for _, id := range []uint16{uapi.AttrCreateQPXRCD, uapi.AttrCreateQPIndTable, uapi.AttrCreateQPSourceQPN} {
		if c.req.Find(id) != nil {
			return refuse(enotsup, "attribute %d", id)
		}
	}
	r := qpRequest{kind: c.req.Find(uapi.AttrCreateQPType).Data(), user: c.word(uapi.AttrCreateQPUserHandle)}
	var err error
	if r.caps, err = in[uapi.QPCap](c, c.req.Find(uapi.AttrCreateQPCap)); err != nil {
		return err
	}
	if err := checkType(r.kind); err != nil {
		return err
	}
	flags := c.word(uapi.AttrCreateQPFlags)
	if flags&^(nativeSignalAll|createFlags(r.kind)) != 0 {
		return refuse(einval, "flags %#x", flags)
	}
	r.signalAll = flags&nativeSignalAll != 0
	if r.async, err = c.asyncFile(uapi.AttrCreateQPEventFD); err != nil {
		return err
	}
	if r.pd, err = native[*pd](c, uapi.ObjectPD, uapi.AttrCreateQPPD); err != nil {
		return err
	}
	if r.sendCQ, err = native[*cq](c, uapi.ObjectCQ, uapi.AttrCreateQPSendCQ); err != nil {
		return err
	}
	if r.recvCQ, err = native[*cq](c, uapi.ObjectCQ, uapi.AttrCreateQPRecvCQ); err != nil {
		return err
	}
	if c.req.Find(uapi.AttrCreateQPSRQ) != nil {
		if r.srq, err = native[*srq](c, uapi.ObjectSRQ, uapi.AttrCreateQPSRQ); err != nil {
			return err
		}
	}
	q, h, err := c.newQP(r)
	if err != nil {
		return err
	}
	c.created(uapi.AttrCreateQPHandle, uint64(h))
	if err = output(c, uapi.AttrCreateQPRespCap, q.caps); err == nil {
		err = output(c, uapi.AttrCreateQPRespQPN, q.qpn)
	}
	return c.orDrop(h, err)
}

// native finds the object that an attribute names, which must be there.
func native[T any](c *call, kind, id uint16) (v T, err error) {
	a := c.req.Find(id)
	if a == nil {
		return v, refuse(einval, "attribute %d is missing", id)
	}
	return lookup[T](c, kind, a.Data())
}

// checkType refuses types that this NIC does not have, and numbers that are none.
func checkType(kind uint64) error {
	switch kind {
	case uapi.QPTypeRC, uapi.QPTypeUC, uapi.QPTypeUD:
		return nil
	case uapi.QPTypeRawPacket, uapi.QPTypeXRCInitiator, uapi.QPTypeXRCTarget, uapi.QPTypeDriver:
		return refuse(enotsup, "queue pair type %d", kind)
	}
	return refuse(einval, "queue pair type %d", kind)
}

// newQP creates the queue pair and writes the driver's response.
func (c *call) newQP(r qpRequest) (*qp, uint32, error) {
	f, n := c.file, c.nic
	u, err := in[prm.CreateQPRequest](c, c.uhwIn)
	if err != nil {
		return nil, 0, err
	}
	if err := checkType(r.kind); err != nil {
		return nil, 0, err
	}
	if r.srq != nil {
		r.caps.MaxRecvWR, r.caps.MaxRecvSGE = 0, 0 // there is no receive queue, whatever was asked for
	}
	if err := c.checkCaps(r.caps); err != nil {
		return nil, 0, err
	}
	if err := c.checkQPUdata(u, r.caps); err != nil {
		return nil, 0, err
	}
	q := &qp{
		mem: c.mem, origin: c.origin, kind: uint8(r.kind), user: r.user, pd: r.pd, sendCQ: r.sendCQ, recvCQ: r.recvCQ, srq: r.srq, async: r.async,
		buf: u.BufAddr, record: u.RecordAddr, sendBlocks: u.SendBlocks, caps: r.caps, signalAll: r.signalAll,
	}
	if u.Receives > 0 {
		q.receives, q.stride = u.Receives, 1<<u.ReceiveShift
	}
	q.sendBuf = q.buf + uint64(q.receives)*uint64(q.stride)
	if !f.oldCQE {
		q.userIndex, q.receiveIndex = u.UserIndex, u.UserIndex
	} else if q.srq != nil {
		q.receiveIndex = q.srq.srqn
	}
	q.setInline(u.Flags)
	if q.charge, err = c.pinQueue(q.buf, q.sendBuf-q.buf+uint64(q.sendBlocks)*prm.Block, q.record); err != nil {
		return nil, 0, err
	}
	resp := prm.CreateQPResponse{Register: prm.NoRegister}
	if f.dynamic() {
		q.uar = f.page(u.Register)
	} else {
		q.register, q.uar = f.takeRegister()
		resp.Register = q.register
	}
	n.addQP(q)
	h := c.add(uapi.ObjectQP, q)
	return q, h, c.orDrop(h, out(c, c.uhwOut, resp))
}

// checkCaps judges the capacities against the device's limits.
func (c *call) checkCaps(caps uapi.QPCap) error {
	l := &c.nic.lim
	switch {
	case c.nic.count.QPs >= l.QPs:
		return refuse(enomem, "%d queue pairs", c.nic.count.QPs)
	case caps.MaxSendWR > uint32(l.QPEntries) || caps.MaxRecvWR > uint32(l.QPEntries):
		return refuse(einval, "%d sends, %d receives, limit %d", caps.MaxSendWR, caps.MaxRecvWR, l.QPEntries)
	case caps.MaxSendSGE > uint32(l.SendSGE) || caps.MaxRecvSGE > uint32(l.ReceiveSGE):
		return refuse(einval, "%d and %d segments, limits %d and %d", caps.MaxSendSGE, caps.MaxRecvSGE, l.SendSGE, l.ReceiveSGE)
	case caps.MaxInlineData > maxSendEntry:
		return refuse(einval, "%d bytes inline", caps.MaxInlineData)
	}
	return nil
}

// qpScatterFlags ask for data in completions. They go with every other flag.
const qpScatterFlags = prm.QPScatterCQE | prm.QPAllowScatterCQE

// setInline decides which messages go into their completions (Linux mlx5_ib qp.c,
// create_user_qp), of connections: short ones that arrive if the first flag is set; what short
// reads and atomics fetch if, besides, all entries complete or the second flag
// says that it may be so. A completion of 128 bytes has room for more.
func (q *qp) setInline(flags uint32) {
	if flags&prm.QPScatterCQE == 0 || q.kind == uapi.QPTypeUD {
		return
	}
	q.inlineReceive = q.recvCQ.inlineRoom()
	if q.kind == uapi.QPTypeUC {
		return // it fetches nothing
	}
	if q.signalAll || flags&prm.QPAllowScatterCQE != 0 {
		q.inlineSend = q.sendCQ.inlineRoom()
	}
}

// checkQPUdata judges the driver's request.
func (c *call) checkQPUdata(u prm.CreateQPRequest, caps uapi.QPCap) error {
	const minLength = 48 // without the fields of newer libraries
	f, l := c.file, &c.nic.lim
	switch {
	case c.uhwIn.Len() < minLength:
		return refuse(einval, "driver request of %d bytes", c.uhwIn.Len())
	case u.SendBlocks&(u.SendBlocks-1) != 0 || u.SendBlocks > uint32(l.QPEntries):
		return refuse(einval, "send queue of %d blocks, limit %d", u.SendBlocks, l.QPEntries)
	case u.Receives&(u.Receives-1) != 0 || u.Receives > uint32(l.QPEntries):
		return refuse(einval, "receive queue of %d, limit %d", u.Receives, l.QPEntries)
	case (caps.MaxRecvWR == 0) != (u.Receives == 0) || u.Receives == 0 && u.ReceiveShift != 0:
		return refuse(einval, "receive queue of %d, stride 1<<%d, for %d receives", u.Receives, u.ReceiveShift, caps.MaxRecvWR)
	case u.Receives > 0 && (u.ReceiveShift < 4 || u.ReceiveShift > 31 || 1<<u.ReceiveShift > maxReceiveEntry):
		return refuse(einval, "receive stride 1<<%d", u.ReceiveShift)
	case u.SendBufAddr != 0 || u.LogStreams != 0 || u.LogErrStreams != 0 || u.Reserved != 0 || u.ECEOptions != 0:
		return refuse(einval, "fields of other queue pair types, or reserved ones, are set")
	case f.oldCQE && u.UserIndex != prm.NoUserIndex, !f.oldCQE && u.UserIndex >= prm.NoUserIndex:
		return refuse(einval, "user index %#x", u.UserIndex)
	case u.RecordAddr%prm.RecordSize != 0:
		return refuse(einval, "doorbell record at %#x", u.RecordAddr)
	}
	return c.checkQPPage(u)
}

func (c *call) checkQPPage(u prm.CreateQPRequest) error {
	f := c.file
	flags := u.Flags &^ qpScatterFlags
	if !f.dynamic() {
		if flags != 0 {
			return refuse(einval, "flags %#x with static doorbell pages", u.Flags)
		}
		return nil
	}
	if flags != prm.QPUARPageIndex || f.page(u.Register) == nil {
		return refuse(einval, "flags %#x, doorbell page %d", u.Flags, u.Register)
	}
	return nil
}

func (c *call) destroyQP(inv uapi.Invoke) error {
	req, err := core[uapi.DestroyQP](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectQP, uint64(req.QPHandle), inv.Reply)
}

func (c *call) destroyQPNative() error {
	return c.destroy(uapi.ObjectQP, c.req.Find(uapi.AttrDestroyQPHandle).Data(), c.req.Find(uapi.AttrDestroyQPResp))
}
