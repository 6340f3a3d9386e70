package connectx

import (
	"math/bits"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic"
)

// queuePair is what the device keeps of one: its context as the driver made it.
type queuePair struct {
	context [qpcSize]byte
	kind    uint8 // uapi.QPTypeRC, ...; 0: one that does nothing
	state   uint8 // of one that does nothing
	pages   int
}

const qpcSize = ifc.Pages - ifc.QPContext

// Service types of queue pairs (mlx5_ifc.h, MLX5_QPC_ST_*), and those of the driver's
// own. What the kernel makes for itself, for management datagrams and for memory keys
// by work queue entries, is made and does nothing.
var services = map[uint64]uint8{
	0x0: uapi.QPTypeRC, 0x1: uapi.QPTypeUC, 0x2: uapi.QPTypeUD,
	0x7: idleKind, // QP0
	0x8: idleKind, // QP1
	0xc: idleKind, // REG_UMR
}

const idleKind = 0

// Types of receive queue (mlx5_ifc.h, MLX5_QPC_RQ_TYPE_*).
const (
	receivesOwn    = 0
	receivesShared = 1
	receivesNone   = 3
)

func (d *Device) createQP(r *request) error {
	f, c := &ifc.QueuePair, r.in[ifc.QPContext:ifc.Pages]
	kind, ok := services[f.Service.Get(c)]
	if !ok {
		return refuse(ifc.BadParameter, "queue pair of service %#x", f.Service.Get(c))
	}
	q := &queuePair{kind: kind}
	copy(q.context[:], c)
	number, err := uint32(0), error(nil)
	if kind == idleKind {
		number, err = d.takeIdle(classQP)
	} else {
		number, err = d.newQP(r, q, c)
	}
	if err != nil {
		return err
	}
	d.qps[number] = q
	d.budget -= int64(q.pages)
	r.answer(number)
	return nil
}

// newQP makes a queue pair in the NIC.
func (d *Device) newQP(r *request, q *queuePair, c []byte) (number uint32, err error) {
	f := &ifc.QueuePair
	cfg := softnic.QPConfig{
		Kind: q.kind, PD: uint32(f.PD.Get(c)), SendCQ: uint32(f.SendCQ.Get(c)), RecvCQ: uint32(f.ReceiveCQ.Get(c)),
		Record: f.Record.Get(c) | recordBit, Page: uint32(f.UAR.Get(c)), UserIndex: uint32(f.UserIndex.Get(c)),
		ScatterReceives: f.ResponseScatter.Bool(c), ScatterSends: f.RequestScatter.Bool(c),
	}
	if !f.NoSend.Bool(c) {
		cfg.SendBlocks = 1 << f.LogSends.Get(c)
	}
	switch f.ReceiveType.Get(c) {
	case receivesOwn:
		cfg.Receives, cfg.Stride = 1<<f.LogReceives.Get(c), 16<<f.LogStride.Get(c)
	case receivesShared:
		cfg.SRQ = uint32(f.SRQN.Get(c))
	case receivesNone:
	default:
		return 0, refuse(ifc.BadParameter, "receive queue of type %d", f.ReceiveType.Get(c))
	}
	start := queueStart(f.PageOffset.Get(c), f.LogPage.Get(c))
	s, err := d.pages(r, f.LogPage.Get(c), start, uint64(cfg.Receives)*uint64(cfg.Stride)+uint64(cfg.SendBlocks)*64)
	if err != nil {
		return 0, err
	}
	cfg.Memory, cfg.Buffer, q.pages = s, start, len(s.pages)
	return d.function.CreateQP(cfg)
}

func (d *Device) destroyQP(r *request) error {
	number := r.object()
	q := d.qps[number]
	if q == nil {
		return refuse(ifc.BadResource, "no queue pair %#x", number)
	}
	if q.kind == idleKind {
		d.idle[classQP].give(number)
	} else if err := d.function.DestroyQP(number); err != nil {
		return err
	}
	d.budget += int64(q.pages)
	delete(d.qps, number)
	return nil
}

// states is where the commands lead.
var states = map[ifc.Opcode]uint8{
	ifc.ToReset: uapi.QPReset, ifc.ToError: uapi.QPErr, ifc.ResetToInit: uapi.QPInit, ifc.InitToInit: uapi.QPInit,
	ifc.InitToRTR: uapi.QPRTR, ifc.RTRToRTS: uapi.QPRTS, ifc.RTSToRTS: uapi.QPRTS,
}

// Bits of the mask of optional parameters (Linux include/linux/mlx5/qp.h,
// MLX5_QP_OPTPAR_*).
const (
	optionRemoteRead   = 1 << 1
	optionRemoteAtomic = 1 << 2
	optionRemoteWrite  = 1 << 3
	optionPKey         = 1 << 4
	optionQKey         = 1 << 5
	optionRNRTimer     = 1 << 6
	optionAccess       = optionRemoteRead | optionRemoteAtomic | optionRemoteWrite
	offOptions         = 16
)

// modifyQP moves a queue pair.
func (d *Device) modifyQP(r *request) error {
	op := ifc.Opcode(ifc.Command.Opcode.Get(r.in))
	number := r.object()
	q := d.qps[number]
	switch {
	case q == nil:
		return refuse(ifc.BadResource, "no queue pair %#x", number)
	case q.kind == idleKind:
		q.state = states[op]
		return nil
	}
	change := uapi.ModifyQP{QPState: states[op], AttrMask: uapi.QPAttrState}
	if op != ifc.ToReset && op != ifc.ToError {
		c := r.in[ifc.QPContext:ifc.Pages]
		change.AttrMask |= attributes(op, q.kind, be.Uint32(r.in[offOptions:]))
		takeContext(&change, c)
		if !infiniBand(d.nic) {
			change.Dest.IsGlobal = 1 // on Ethernet paths are, and do not say so
		}
	}
	return d.function.ModifyQP(number, &change)
}

// attributes are those that a command brings: what it needs, and what the driver's
// mask says.
func attributes(op ifc.Opcode, kind uint8, options uint32) (mask uint32) {
	datagram, connected := kind == uapi.QPTypeUD, kind != uapi.QPTypeUD
	switch op {
	case ifc.ResetToInit:
		mask = uapi.QPAttrPkeyIndex | uapi.QPAttrPort
		if datagram {
			return mask | uapi.QPAttrQkey
		}
		return mask | uapi.QPAttrAccessFlags
	case ifc.InitToRTR:
		if connected {
			mask = uapi.QPAttrAV | uapi.QPAttrPathMTU | uapi.QPAttrRqPsn | uapi.QPAttrDestQpn
		}
		if kind == uapi.QPTypeRC {
			mask |= uapi.QPAttrMinRnrTimer | uapi.QPAttrMaxDestRdAtomic
		}
	case ifc.RTRToRTS:
		mask = uapi.QPAttrSqPsn
		if kind == uapi.QPTypeRC {
			mask |= uapi.QPAttrTimeout | uapi.QPAttrRetryCnt | uapi.QPAttrRnrRetry | uapi.QPAttrMaxRdAtomic
		}
	}
	if options&optionAccess != 0 && connected {
		mask |= uapi.QPAttrAccessFlags
	}
	if options&optionPKey != 0 && op != ifc.RTRToRTS && op != ifc.RTSToRTS {
		mask |= uapi.QPAttrPkeyIndex
	}
	if options&optionQKey != 0 && datagram {
		mask |= uapi.QPAttrQkey
	}
	if options&optionRNRTimer != 0 && kind == uapi.QPTypeRC {
		mask |= uapi.QPAttrMinRnrTimer
	}
	return mask
}

// takeContext takes the attributes out of a context.
func takeContext(m *uapi.ModifyQP, c []byte) {
	f, a, path := &ifc.QueuePair, &ifc.AddressPath, c[ifc.PrimaryPath:]
	m.PortNum = uint8(a.Port.Get(path))
	m.PkeyIndex = uint16(a.PKeyIndex.Get(path))
	m.Qkey = uint32(f.QKey.Get(c))
	m.PathMTU = uint8(f.MTU.Get(c))
	m.DestQPNum = uint32(f.RemoteQPN.Get(c))
	m.RqPsn, m.SqPsn = uint32(f.ReceivePSN.Get(c)), uint32(f.SendPSN.Get(c))
	m.MaxRdAtomic, m.MaxDestRdAtomic = 1<<f.LogSendReads.Get(c), 1<<f.LogReceiveReads.Get(c)
	m.MinRnrTimer = uint8(f.RNRTimer.Get(c))
	m.Timeout = uint8(a.AckTimeout.Get(path))
	m.RetryCnt, m.RnrRetry = uint8(f.Retries.Get(c)), uint8(f.RNRRetries.Get(c))
	for _, v := range []struct {
		field ifc.Field
		bit   uint32
	}{
		{f.RemoteRead, uapi.AccessRemoteRead}, {f.RemoteWrite, uapi.AccessRemoteWrite}, {f.RemoteAtomic, uapi.AccessRemoteAtomic},
	} {
		if v.field.Bool(c) {
			m.QPAccessFlags |= v.bit
		}
	}
	m.Dest = uapi.QPDest{
		FlowLabel: uint32(a.FlowLabel.Get(path)), Dlid: uint16(a.LID.Get(path)), SgidIndex: uint8(a.SourceIndex.Get(path)),
		HopLimit: uint8(a.HopLimit.Get(path)), TrafficClass: uint8(a.TrafficClass.Get(path)), Sl: uint8(a.ServiceLevel.Get(path)),
		SrcPathBits: uint8(a.PathBits.Get(path)), IsGlobal: uint8(a.Global.Get(path)), PortNum: m.PortNum,
	}
	copy(m.Dest.Dgid[:], path[ifc.PathGID:])
}

// queryQP writes what has become of a queue pair over the context that it was made
// with.
func (d *Device) queryQP(r *request) error {
	number := r.object()
	q := d.qps[number]
	if q == nil {
		return refuse(ifc.BadResource, "no queue pair %#x", number)
	}
	c := r.out[ifc.QPContext:ifc.Pages]
	copy(c, q.context[:])
	if q.kind == idleKind {
		ifc.QueuePair.State.Put(c, uint64(q.state))
		return nil
	}
	a, err := d.function.QueryQP(number)
	if err == nil {
		putContext(c, &a)
	}
	return err
}

// putContext writes the attributes into a context. The states that the device has are
// numbered as in uverbs.
func putContext(c []byte, a *uapi.QueryQPResp) {
	f, p, path := &ifc.QueuePair, &ifc.AddressPath, c[ifc.PrimaryPath:]
	put := func(field ifc.Field, v uint64) { field.Put(c, v&field.Max()) }
	put(f.State, uint64(a.QPState))
	put(f.MTU, uint64(a.PathMTU))
	put(f.RemoteQPN, uint64(a.DestQPNum))
	put(f.QKey, uint64(a.Qkey))
	put(f.ReceivePSN, uint64(a.RqPsn))
	put(f.SendPSN, uint64(a.SqPsn))
	put(f.RNRTimer, uint64(a.MinRnrTimer))
	put(f.Retries, uint64(a.RetryCnt))
	put(f.RNRRetries, uint64(a.RnrRetry))
	put(f.LogSendReads, logOf(a.MaxRdAtomic))
	put(f.LogReceiveReads, logOf(a.MaxDestRdAtomic))
	put(f.RemoteRead, uint64(a.QPAccessFlags/uapi.AccessRemoteRead&1))
	put(f.RemoteWrite, uint64(a.QPAccessFlags/uapi.AccessRemoteWrite&1))
	put(f.RemoteAtomic, uint64(a.QPAccessFlags/uapi.AccessRemoteAtomic&1))
	to := func(field ifc.Field, v uint64) { field.Put(path, v&field.Max()) }
	to(p.Port, uint64(a.PortNum))
	to(p.PKeyIndex, uint64(a.PkeyIndex))
	to(p.AckTimeout, uint64(a.Timeout))
	to(p.Global, uint64(a.Dest.IsGlobal))
	to(p.LID, uint64(a.Dest.Dlid))
	to(p.SourceIndex, uint64(a.Dest.SgidIndex))
	to(p.HopLimit, uint64(a.Dest.HopLimit))
	to(p.TrafficClass, uint64(a.Dest.TrafficClass))
	to(p.FlowLabel, uint64(a.Dest.FlowLabel))
	to(p.ServiceLevel, uint64(a.Dest.Sl))
	copy(path[ifc.PathGID:][:16], a.Dest.Dgid[:])
}

func logOf(v uint8) uint64 { return uint64(max(bits.Len8(v), 1) - 1) }
