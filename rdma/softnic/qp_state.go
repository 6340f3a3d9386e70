package softnic

import (
	"syscall"

	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// sending reports whether entries of the send queue are fetched: to be sent, or
// to be flushed.
func (q *qp) sending() bool { return q.state == uapi.QPRTS || q.state == uapi.QPErr }

// connected reports whether packets can mean something to the queue pair.
func (q *qp) connected() bool { return q.state == uapi.QPRTR || q.state == uapi.QPRTS }

// checkAttributes judges the values that the mask names.
func (q *qp) checkAttributes(r *uapi.ModifyQP) error {
	has := func(bit uint32) bool { return r.AttrMask&bit != 0 }
	const access = uapi.AccessLocalWrite | uapi.AccessRemoteWrite | uapi.AccessRemoteRead | uapi.AccessRemoteAtomic
	l := &q.nic.lim
	switch {
	case has(uapi.QPAttrPort) && r.PortNum != portNumber:
		return refuse(einval, "port %d", r.PortNum)
	case has(uapi.QPAttrPkeyIndex) && r.PkeyIndex != 0:
		return refuse(einval, "P_Key index %d", r.PkeyIndex)
	case has(uapi.QPAttrAccessFlags) && r.QPAccessFlags&^uint32(access) != 0:
		return refuse(einval, "access %#x", r.QPAccessFlags)
	case has(uapi.QPAttrMaxRdAtomic) && int(r.MaxRdAtomic) > l.ReadAtomics:
		return refuse(einval, "%d reads as initiator, limit %d", r.MaxRdAtomic, l.ReadAtomics)
	case has(uapi.QPAttrMaxDestRdAtomic) && int(r.MaxDestRdAtomic) > l.ReadAtomics:
		return refuse(einval, "%d reads as responder, limit %d", r.MaxDestRdAtomic, l.ReadAtomics)
	case has(uapi.QPAttrMinRnrTimer) && r.MinRnrTimer > 31:
		return refuse(einval, "receiver-not-ready timer %d", r.MinRnrTimer)
	case has(uapi.QPAttrTimeout) && r.Timeout > 31:
		return refuse(einval, "timeout %d", r.Timeout)
	case has(uapi.QPAttrRetryCnt) && r.RetryCnt > 7:
		return refuse(einval, "retry count %d", r.RetryCnt)
	case has(uapi.QPAttrRnrRetry) && r.RnrRetry > 7:
		return refuse(einval, "receiver-not-ready retry count %d", r.RnrRetry)
	case has(uapi.QPAttrAltPath), has(uapi.QPAttrPathMigState) && r.PathMigState != pathMigrated:
		return refuse(einval, "alternate paths are not supported")
	case has(uapi.QPAttrPathMTU) && (!verbs.MTU(r.PathMTU).Valid() || r.PathMTU > uint8(q.nic.mtu)):
		return refuse(einval, "path MTU %d, port has %d", r.PathMTU, q.nic.mtu)
	case has(uapi.QPAttrDestQpn) && r.DestQPNum > verbs.MaxQPN:
		return refuse(einval, "peer queue pair %#x", r.DestQPNum)
	case has(uapi.QPAttrAV):
		if r.Dest.PortNum != q.attr.PortNum {
			return refuse(einval, "path from port %d, queue pair is on port %d", r.Dest.PortNum, q.attr.PortNum)
		}
		return q.nic.checkPath(&r.Dest)
	}
	return nil
}

// pathMigrated is the state of a queue pair without an alternate path (ib_verbs.h,
// enum ib_mig_state).
const pathMigrated = 0

// checkPath judges the way to the peer.
func (n *NIC) checkPath(d *uapi.QPDest) error {
	switch {
	case d.Reserved != 0:
		return refuse(einval, "reserved field of the path is set")
	case d.StaticRate == 1 || d.StaticRate > 24:
		return refuse(einval, "static rate %d", d.StaticRate)
	case d.Sl > 15:
		return refuse(einval, "service level %d", d.Sl)
	}
	if d.IsGlobal != 0 {
		if int(d.SgidIndex) >= max(GIDSlots, len(n.gids)) {
			return refuse(einval, "source GID index %d", d.SgidIndex)
		}
		if int(d.SgidIndex) >= len(n.gids) {
			return refuse(syscall.ENODATA, "source GID index %d is empty", d.SgidIndex)
		}
	}
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		if d.Dlid == 0 || d.Dlid > maxLID {
			return refuse(einval, "peer LID %#x", d.Dlid)
		}
		return nil
	}
	return n.checkRoute(d)
}

// checkRoute is what the kernel finds when it resolves the peer's address. It takes
// any address for one on the interface's link if no route says otherwise, and waits a
// second for its neighbour; the wait is left out.
func (n *NIC) checkRoute(d *uapi.QPDest) error {
	if d.IsGlobal == 0 {
		return refuse(einval, "no global route on Ethernet")
	}
	source, peer := n.gids[d.SgidIndex], verbs.GID(d.Dgid)
	to := peer.Addr()
	switch {
	case source.gid.IsZero():
		return refuse(syscall.ENODATA, "source GID index %d is empty", d.SgidIndex)
	case source.link == nil:
		return refuse(enotsup, "source GID index %d is of RoCE v1", d.SgidIndex)
	case peer.IsZero() || peer.IsMulticast() || to.IsUnspecified() || to.IsMulticast():
		return refuse(einval, "peer GID %v", peer)
	case peer.IsV4() != source.gid.IsV4() || to.IsLinkLocalUnicast() != source.gid.Addr().IsLinkLocalUnicast():
		return refuse(einval, "peer GID %v from %v", peer, source.gid)
	case n.cfg.Unaddressed: // its driver's kernel looks at routes itself
		return nil
	}
	if there, err := n.known(to); there || err != nil {
		return err
	}
	if !n.udp || to.IsLinkLocalUnicast() || to.IsLoopback() != source.link.Addr().IsLoopback() {
		return refuse(etimedout, "peer GID %v is not on the network", peer)
	}
	return nil
}

// move carries out a change that was judged to be in order.
func (q *qp) move(r *uapi.ModifyQP, to uint8) error {
	from := q.state
	if to == uapi.QPReset {
		q.reset()
		return nil
	}
	before := q.attr
	q.setAttributes(r)
	if err := q.moveProtocol(from, to); err != nil {
		q.attr = before
		return refuse(einval, "%v", err)
	}
	q.state = to
	q.nic.schedule(q)
	q.nic.pending.Store(true)
	return nil
}

func (q *qp) moveProtocol(from, to uint8) error {
	a := &q.attr
	if q.datagrams != nil {
		return q.moveDatagrams(from, to)
	}
	switch {
	case to == uapi.QPRTR:
		q.setPath()
		err := q.connection.StartReceive(rc.Receiving{
			PeerQPN: a.DestQPNum, MTU: verbs.MTU(a.PathMTU).Bytes(), PSN: a.RqPsn & verbs.MaxPSN,
			Access: rcAccess(a.QPAccessFlags), Reads: int(a.MaxDestRdAtomic), RNRTimer: a.MinRnrTimer,
		})
		if err == nil {
			q.join()
		}
		return err
	case to == uapi.QPRTS && from == uapi.QPRTR:
		q.rung = true
		err := q.connection.StartSend(rc.Sending{
			PSN: a.SqPsn & verbs.MaxPSN, Reads: int(a.MaxRdAtomic), Timeout: a.Timeout,
			Retries: a.RetryCnt, RNRRetry: a.RnrRetry,
		})
		if err != nil {
			return err
		}
		fallthrough
	case to == uapi.QPRTS:
		q.connection.SetAccess(rcAccess(a.QPAccessFlags))
		q.connection.SetRNRTimer(a.MinRnrTimer)
	case to == uapi.QPErr:
		return q.failProtocol(from)
	}
	return nil
}

// failProtocol has everything posted flushed. The protocol knows no error
// before it was started.
func (q *qp) failProtocol(from uint8) error {
	if from == uapi.QPInit {
		if err := q.connection.StartReceive(rc.Receiving{MTU: verbs.MTU256.Bytes()}); err != nil {
			return err
		}
	}
	q.proto.Fail()
	return nil
}

// setPath finds the link and the address that lead to the peer.
func (q *qp) setPath() {
	n, d := q.nic, &q.attr.Dest
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		q.way.out, q.way.to = n.gids[0].link, lidAddr(d.Dlid)
	} else {
		q.way.out, q.way.to = n.gids[d.SgidIndex].link, verbs.GID(d.Dgid).Addr()
		d.HopLimit = 64 // the route's, whatever was asked for
	}
	q.way.neighbor = n.network.here.at(q.way.to)
	q.way.sourcePort = flowPort(d.FlowLabel, q.qpn, q.attr.DestQPNum)
	q.way.class, q.way.global = d.TrafficClass, d.IsGlobal != 0
	q.setECN()
}

// setAttributes takes the values that the mask names.
func (q *qp) setAttributes(r *uapi.ModifyQP) {
	a := &q.attr
	set := func(bit uint32, f func()) {
		if r.AttrMask&bit != 0 {
			f()
		}
	}
	set(uapi.QPAttrAccessFlags, func() { a.QPAccessFlags = r.QPAccessFlags })
	set(uapi.QPAttrPkeyIndex, func() { a.PkeyIndex = r.PkeyIndex })
	set(uapi.QPAttrPort, func() { a.PortNum = r.PortNum })
	set(uapi.QPAttrQkey, func() { a.Qkey = r.Qkey })
	set(uapi.QPAttrAV, func() { a.Dest = r.Dest })
	set(uapi.QPAttrPathMTU, func() { a.PathMTU = r.PathMTU })
	set(uapi.QPAttrTimeout, func() { a.Timeout = r.Timeout })
	set(uapi.QPAttrRetryCnt, func() { a.RetryCnt = r.RetryCnt })
	set(uapi.QPAttrRnrRetry, func() { a.RnrRetry = r.RnrRetry })
	set(uapi.QPAttrRqPsn, func() { a.RqPsn = r.RqPsn & verbs.MaxPSN })
	set(uapi.QPAttrSqPsn, func() { a.SqPsn = r.SqPsn & verbs.MaxPSN })
	set(uapi.QPAttrMaxRdAtomic, func() { a.MaxRdAtomic = r.MaxRdAtomic })
	set(uapi.QPAttrMaxDestRdAtomic, func() { a.MaxDestRdAtomic = r.MaxDestRdAtomic })
	set(uapi.QPAttrMinRnrTimer, func() { a.MinRnrTimer = r.MinRnrTimer })
	set(uapi.QPAttrDestQpn, func() { a.DestQPNum = r.DestQPNum })
}

// query is the response of QUERY_QP. As for all user queue pairs of the mlx5
// driver the send capacities are the library's business, and 0.
func (q *qp) query() uapi.QueryQPResp {
	a := q.attr
	a.QPState, a.CurQPState = q.state, q.state
	a.MaxRecvWR, a.MaxRecvSGE = q.receives, q.stride/16
	a.MaxInlineData = 0
	if q.signalAll {
		a.SqSigAll = 1
	}
	return a
}

// Event is what the protocol reports about the queue pair as a whole.
func (q *qp) Event(e rc.Event) {
	n := q.nic
	if e.Cause != nil {
		n.warn("queue pair", "qpn", q.qpn, "event", e.Kind, "cause", e.Cause)
	}
	switch e.Kind {
	case rc.Established:
		q.raise(uapi.EventCommEst)
	case rc.RequestError:
		q.raise(uapi.EventQPReqErr)
	case rc.AccessError:
		q.raise(uapi.EventQPAccessErr)
	case rc.Fatal:
		q.raise(uapi.EventQPFatal)
	case rc.FlushReceives:
		q.state = uapi.QPErr
		q.rung = true
		n.schedule(q)
		if q.srq != nil {
			q.raise(uapi.EventQPLastWQEReached) // it takes no more
			return
		}
		n.flushing[q] = true
		n.flushWait = 0
		q.flushReceives()
	}
}

func (q *qp) raise(kind uint32) {
	if q.async != nil {
		q.asyncEvents++
	}
	q.nic.raiseAsync(q.async, event{element: q.user, kind: kind, owner: q})
}

// doom has a queue pair moved to error at its next turn: not at once, because
// the protocol may be at work on it.
func (n *NIC) doom(q *qp) {
	if !q.connected() {
		return
	}
	q.raise(uapi.EventQPFatal)
	q.doomed = true
	n.schedule(q)
	n.pending.Store(true)
}
