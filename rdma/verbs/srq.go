package verbs

import "github.com/farwire/farwire/internal/uapi"

// CreateSRQ is the request of [Context.CreateSRQ].
type CreateSRQ struct {
	UserHandle    uint64 // comes back in asynchronous events
	PD            uint32
	MaxWR, MaxSGE uint32 // receives, and segments of each
	In, Out       []byte // the driver's request and response
	Pinned        uint64 // bytes the driver's request asks to pin; for error texts only
}

// An SRQ is a created shared receive queue.
type SRQ struct {
	Handle        uint32
	MaxWR, MaxSGE uint32 // as granted
}

// CreateSRQ creates a shared receive queue.
func (c *Context) CreateSRQ(q CreateSRQ) (SRQ, error) {
	req := uapi.CreateSRQ{UserHandle: q.UserHandle, PDHandle: q.PD, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE}
	var resp uapi.CreateSRQResp
	err := c.write(op{name: "create shared receive queue", pins: true, bytes: q.Pinned}, uapi.CmdCreateSRQ, uapi.Bytes(&req), uapi.Bytes(&resp), q.In, q.Out)
	return SRQ{Handle: resp.SRQHandle, MaxWR: resp.MaxWR, MaxSGE: resp.MaxSGE}, err
}

// LimitSRQ asks for one EventSRQLimit once fewer than n receives are posted; 0 asks for
// none any more.
func (c *Context) LimitSRQ(handle, n uint32) error {
	req := uapi.ModifySRQ{SRQHandle: handle, AttrMask: uapi.SRQAttrLimit, SRQLimit: n}
	return c.write(op{name: "set limit of shared receive queue"}, uapi.CmdModifySRQ, uapi.Bytes(&req), nil, nil, nil)
}

// DestroySRQ destroys a shared receive queue and returns how many asynchronous events of
// it were read. EBUSY means that a queue pair still uses it.
func (c *Context) DestroySRQ(handle uint32) (async uint32, err error) {
	req := uapi.DestroySRQ{SRQHandle: handle}
	var resp uapi.DestroySRQResp
	err = c.write(op{name: "destroy shared receive queue"}, uapi.CmdDestroySRQ, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil)
	return resp.EventsReported, err
}
