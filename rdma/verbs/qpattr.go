package verbs

import "github.com/farwire/farwire/internal/uapi"

// QPMask says which fields of a QPAttr a command sets or asks for (ib_verbs.h,
// enum ib_qp_attr_mask).
type QPMask uint32

// The bits, each for one field of QPAttr.
const (
	MaskState       QPMask = uapi.QPAttrState
	MaskCurState    QPMask = uapi.QPAttrCurState
	MaskAccess      QPMask = uapi.QPAttrAccessFlags
	MaskPKeyIndex   QPMask = uapi.QPAttrPkeyIndex
	MaskPort        QPMask = uapi.QPAttrPort
	MaskQKey        QPMask = uapi.QPAttrQkey
	MaskPath        QPMask = uapi.QPAttrAV
	MaskMTU         QPMask = uapi.QPAttrPathMTU
	MaskTimeout     QPMask = uapi.QPAttrTimeout
	MaskRetries     QPMask = uapi.QPAttrRetryCnt
	MaskRNRRetries  QPMask = uapi.QPAttrRnrRetry
	MaskRecvPSN     QPMask = uapi.QPAttrRqPsn
	MaskReads       QPMask = uapi.QPAttrMaxRdAtomic
	MaskMinRNRTimer QPMask = uapi.QPAttrMinRnrTimer
	MaskSendPSN     QPMask = uapi.QPAttrSqPsn
	MaskPeerReads   QPMask = uapi.QPAttrMaxDestRdAtomic
	MaskCap         QPMask = uapi.QPAttrCap
	MaskPeerQPN     QPMask = uapi.QPAttrDestQpn

	// What a reliable connection needs for each step, no less and (but for
	// MaskAccess and a few others) no more.
	MaskResetToInit QPMask = uapi.RCResetToInit
	MaskInitToRTR   QPMask = uapi.RCInitToRTR
	MaskRTRToRTS    QPMask = uapi.RCRTRToRTS
)

// QPAttr are the attributes of a queue pair.
type QPAttr struct {
	State       QPState
	CurState    QPState
	Access      Access // what the peer may do
	PKeyIndex   uint16
	Port        uint8 // own port, from 1
	QKey        uint32
	Path        Path
	MTU         MTU   // both sides the same, at most the port's active MTU
	Timeout     uint8 // 4.096 µs << Timeout until a retry; 0 is never
	Retries     uint8 // 0 to 7
	RNRRetries  uint8 // 0 to 7, 7 is for ever
	MinRNRTimer uint8 // code 0 to 31 of the time the peer is asked to wait; 12 is 0.64 ms, 0 the longest
	RecvPSN     uint32
	SendPSN     uint32
	Reads       uint8 // reads and atomics in flight to the peer
	PeerReads   uint8 // reads and atomics in flight from the peer
	PeerQPN     uint32
}

// A Path is the way to the peer.
type Path struct {
	GID          GID    // the peer's
	LID          uint16 // the peer's, InfiniBand only
	Global       bool   // GID and SGIDIndex are used; required on Ethernet
	SGIDIndex    uint8  // index of the own GID
	Port         uint8  // own port, that of the queue pair
	FlowLabel    uint32 // 20 bits; 0 lets the kernel choose the UDP source port
	HopLimit     uint8  // on RoCE the kernel sets its own
	TrafficClass uint8
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
}

// ModifyQP sets the attributes of a queue pair that mask names. Going to
// StateRTR on Ethernet resolves the peer's address: it may block for a second
// and fail with a network error. A mask that the transition does not allow, or
// that lacks a bit it needs, is EINVAL.
func (c *Context) ModifyQP(handle uint32, a QPAttr, mask QPMask) error {
	req := uapi.ModifyQP{
		Dest: a.Path.dest(), QPHandle: handle, AttrMask: uint32(mask),
		Qkey: a.QKey, RqPsn: a.RecvPSN, SqPsn: a.SendPSN, DestQPNum: a.PeerQPN,
		QPAccessFlags: uint32(a.Access), PkeyIndex: a.PKeyIndex,
		QPState: uint8(a.State), CurQPState: uint8(a.CurState), PathMTU: uint8(a.MTU),
		MaxRdAtomic: a.Reads, MaxDestRdAtomic: a.PeerReads, MinRnrTimer: a.MinRNRTimer,
		PortNum: a.Port, Timeout: a.Timeout, RetryCnt: a.Retries, RnrRetry: a.RNRRetries,
	}
	call := "modify queue pair"
	if mask&MaskState != 0 {
		call += " to " + a.State.String()
	}
	return c.write(op{name: call}, uapi.CmdModifyQP, uapi.Bytes(&req), nil, nil, nil)
}

// QueryQP returns the attributes and capacities of a queue pair. mask is a hint
// of what is wanted.
func (c *Context) QueryQP(handle uint32, mask QPMask) (QPAttr, QPCap, error) {
	req := uapi.QueryQP{QPHandle: handle, AttrMask: uint32(mask)}
	var r uapi.QueryQPResp
	if err := c.write(op{name: "query queue pair"}, uapi.CmdQueryQP, uapi.Bytes(&req), uapi.Bytes(&r), nil, nil); err != nil {
		return QPAttr{}, QPCap{}, err
	}
	attr := QPAttr{
		State: QPState(r.QPState), CurState: QPState(r.CurQPState), Access: Access(r.QPAccessFlags),
		PKeyIndex: r.PkeyIndex, Port: r.PortNum, QKey: r.Qkey, Path: pathOf(r.Dest), MTU: MTU(r.PathMTU),
		Timeout: r.Timeout, Retries: r.RetryCnt, RNRRetries: r.RnrRetry, MinRNRTimer: r.MinRnrTimer,
		RecvPSN: r.RqPsn, SendPSN: r.SqPsn, Reads: r.MaxRdAtomic, PeerReads: r.MaxDestRdAtomic, PeerQPN: r.DestQPNum,
	}
	qcap := QPCap{
		SendWR: r.MaxSendWR, RecvWR: r.MaxRecvWR, SendSGE: r.MaxSendSGE, RecvSGE: r.MaxRecvSGE, Inline: r.MaxInlineData,
	}
	return attr, qcap, nil
}

func (p Path) dest() uapi.QPDest {
	return uapi.QPDest{
		Dgid: p.GID, FlowLabel: p.FlowLabel, Dlid: p.LID, SgidIndex: p.SGIDIndex, HopLimit: p.HopLimit,
		TrafficClass: p.TrafficClass, Sl: p.SL, SrcPathBits: p.SrcPathBits, StaticRate: p.StaticRate,
		IsGlobal: bit(p.Global), PortNum: p.Port,
	}
}

func pathOf(d uapi.QPDest) Path {
	return Path{
		GID: d.Dgid, LID: d.Dlid, Global: d.IsGlobal != 0, SGIDIndex: d.SgidIndex, Port: d.PortNum,
		FlowLabel: d.FlowLabel, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass,
		SL: d.Sl, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate,
	}
}
