package verbs

import "github.com/farwire/farwire/internal/uapi"

// QPType is the transport of a queue pair (ib_user_ioctl_verbs.h, enum
// ib_uverbs_qp_type).
type QPType uint8

// The types of queue pair.
const (
	RC QPType = 2 // reliable connection
	UC QPType = 3 // unreliable connection
	UD QPType = 4 // unreliable datagram
)

// QPCap are the capacities of a queue pair.
type QPCap struct {
	SendWR, RecvWR   uint32 // work requests
	SendSGE, RecvSGE uint32 // segments for each
	Inline           uint32 // bytes of inline data
}

// CreateQP is the request of [Context.CreateQP].
type CreateQP struct {
	UserHandle     uint64 // comes back in asynchronous events
	PD             uint32
	SendCQ, RecvCQ uint32
	SRQ            *uint32 // handle of the shared receive queue, nil for none
	Cap            QPCap
	Type           QPType
	SignalAll      bool   // every send completes, whatever its flag
	In, Out        []byte // the driver's request and response
	Pinned         uint64 // bytes the driver's request asks to pin; for error texts only
}

// A QP is a created queue pair, in StateReset.
type QP struct {
	Handle uint32
	QPN    uint32
	Cap    QPCap // as granted
}

// CreateQP creates a queue pair.
func (c *Context) CreateQP(q CreateQP) (QP, error) {
	req := uapi.CreateQP{
		UserHandle: q.UserHandle, PDHandle: q.PD, SendCQHandle: q.SendCQ, RecvCQHandle: q.RecvCQ,
		MaxSendWR: q.Cap.SendWR, MaxRecvWR: q.Cap.RecvWR,
		MaxSendSGE: q.Cap.SendSGE, MaxRecvSGE: q.Cap.RecvSGE, MaxInlineData: q.Cap.Inline,
		SqSigAll: bit(q.SignalAll), QPType: uint8(q.Type),
	}
	if q.SRQ != nil {
		req.SRQHandle, req.IsSRQ = *q.SRQ, 1
	}
	var resp uapi.CreateQPResp
	err := c.write(op{name: "create queue pair", pins: true, bytes: q.Pinned}, uapi.CmdCreateQP, uapi.Bytes(&req), uapi.Bytes(&resp), q.In, q.Out)
	return QP{Handle: resp.QPHandle, QPN: resp.Qpn, Cap: QPCap{
		SendWR: resp.MaxSendWR, RecvWR: resp.MaxRecvWR,
		SendSGE: resp.MaxSendSGE, RecvSGE: resp.MaxRecvSGE, Inline: resp.MaxInlineData,
	}}, err
}

// DestroyQP destroys a queue pair and returns how many asynchronous events of
// it were read. Completions already in its completion queues stay there.
func (c *Context) DestroyQP(handle uint32) (async uint32, err error) {
	req := uapi.DestroyQP{QPHandle: handle}
	var resp uapi.DestroyQPResp
	err = c.write(op{name: "destroy queue pair"}, uapi.CmdDestroyQP, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil)
	return resp.EventsReported, err
}

// PostSend tells Soft-RoCE's kernel driver to look at a queue pair's mapped
// send queue. mlx5's queues have doorbells instead.
func (c *Context) PostSend(handle uint32) error {
	// The kernel refuses a work request size below that of its own structure
	// and uses it for nothing else when there are no work requests.
	req := uapi.PostSend{QPHandle: handle, WqeSize: 128}
	return c.ring(op{name: "post send"}, uapi.CmdPostSend, uapi.Bytes(&req), uapi.Size[uapi.PostSendResp]())
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
