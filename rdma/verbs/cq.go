package verbs

import "github.com/farwire/farwire/internal/uapi"

// A CompChannel delivers completion events, one 8-byte record for each Read
// (see [ParseCompEvent]), for any number of completion queues.
type CompChannel struct {
	EventFile
	fd int32
}

// FD returns the number of the channel's descriptor, as commands name it.
func (c *CompChannel) FD() int32 { return c.fd }

// CreateCompChannel creates a completion channel. The caller closes it, after
// the completion queues that use it.
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	var req uapi.CreateCompChannel
	var resp uapi.CreateCompChannelResp
	if err := c.write(op{name: "create completion channel"}, uapi.CmdCreateCompChannel, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil); err != nil {
		return nil, err
	}
	ev, err := c.file.Events(int(resp.FD))
	if err != nil {
		return nil, fileError(op{name: "open completion channel"}, err)
	}
	return &CompChannel{ev, int32(resp.FD)}, nil
}

// CreateCQ is the request of [Context.CreateCQ].
type CreateCQ struct {
	UserHandle uint64       // comes back in completion and error events
	Entries    uint32       // mlx5 rounds Entries+1 up to a power of two
	Vector     uint32       // below NumCompVectors
	Channel    *CompChannel // nil for none
	In, Out    []byte       // the driver's request and response
	Pinned     uint64       // bytes the driver's request asks to pin; for error texts only
}

// A CQ is a created completion queue.
type CQ struct {
	Handle  uint32
	Entries uint32 // as granted
}

// CreateCQ creates a completion queue.
func (c *Context) CreateCQ(q CreateCQ) (CQ, error) {
	req := uapi.CreateCQ{UserHandle: q.UserHandle, Cqe: q.Entries, CompVector: q.Vector, CompChannel: -1}
	if q.Channel != nil {
		req.CompChannel = q.Channel.fd
	}
	var resp uapi.CreateCQResp
	err := c.write(op{name: "create completion queue", pins: true, bytes: q.Pinned}, uapi.CmdCreateCQ, uapi.Bytes(&req), uapi.Bytes(&resp), q.In, q.Out)
	return CQ{Handle: resp.CQHandle, Entries: resp.Cqe}, err
}

// DestroyCQ destroys a completion queue. It returns how many completion and
// asynchronous events of it were read; unread ones are dropped. EBUSY means
// that a queue pair still uses it.
func (c *Context) DestroyCQ(handle uint32) (comp, async uint32, err error) {
	req := uapi.DestroyCQ{CQHandle: handle}
	var resp uapi.DestroyCQResp
	err = c.write(op{name: "destroy completion queue"}, uapi.CmdDestroyCQ, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil)
	return resp.CompEventsReported, resp.AsyncEventsReported, err
}

// ReqNotifyCQ asks for one event at the next completion. Soft-RoCE's queues are
// armed with it; mlx5's are armed through a doorbell instead. It allocates nothing.
func (c *Context) ReqNotifyCQ(handle uint32, solicitedOnly bool) error {
	req := uapi.ReqNotifyCQ{CQHandle: handle}
	if solicitedOnly {
		req.SolicitedOnly = 1
	}
	return c.ring(op{name: "arm completion queue"}, uapi.CmdReqNotifyCQ, uapi.Bytes(&req), 0)
}
