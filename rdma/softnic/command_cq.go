package softnic

import (
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// cqRequest is a completion queue wanted, by whichever command.
type cqRequest struct {
	user    uint64
	cqe     uint32
	vector  uint32
	channel int32 // -1: none
	flags   uint32
	async   *eventFile
	page    uapi.Attr // the native method's way of naming the doorbell page
}

func (c *call) createCQ(inv uapi.Invoke) error {
	req, err := core[uapi.CreateCQ](c, inv.Core)
	if err != nil {
		return err
	}
	q, h, err := c.newCQ(cqRequest{user: req.UserHandle, cqe: req.Cqe, vector: req.CompVector,
		channel: req.CompChannel, async: c.file.async})
	if err != nil {
		return err
	}
	return c.orDrop(h, out(c, inv.Reply, uapi.CreateCQResp{CQHandle: h, Cqe: q.entries - 1}))
}

func (c *call) createCQEx(inv uapi.Invoke) error {
	req, err := core[uapi.ExCreateCQ](c, inv.Core)
	if err != nil {
		return err
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return refuse(einval, "comp_mask %#x, reserved %#x", req.CompMask, req.Reserved)
	}
	q, h, err := c.newCQ(cqRequest{user: req.UserHandle, cqe: req.Cqe, vector: req.CompVector,
		channel: req.CompChannel, flags: req.Flags, async: c.file.async})
	if err != nil {
		return err
	}
	resp := uapi.ExCreateCQResp{Base: uapi.CreateCQResp{CQHandle: h, Cqe: q.entries - 1}}
	resp.ResponseLength = uint32(uapi.Size[uapi.ExCreateCQResp]())
	return c.orDrop(h, out(c, inv.Reply, resp))
}

func (c *call) createCQNative() error {
	if err := c.needContext(); err != nil {
		return err
	}
	req := cqRequest{
		channel: -1,
		page:    c.req.Find(prm.AttrCreateCQPage),
		cqe:     uint32(c.word(uapi.AttrCreateCQCQE)),
		user:    c.word(uapi.AttrCreateCQUserHandle),
		vector:  uint32(c.word(uapi.AttrCreateCQCompVector)),
	}
	flags := c.word(uapi.AttrCreateCQFlags)
	if flags>>32 != 0 {
		return refuse(einval, "flags %#x", flags)
	}
	req.flags = uint32(flags)
	var err error
	if a := c.req.Find(uapi.AttrCreateCQCompChannel); a != nil {
		if req.channel = int32(a.Data()); req.channel < 0 {
			return refuse(ebadf, "completion channel %d", req.channel)
		}
	}
	if req.async, err = c.asyncFile(uapi.AttrCreateCQEventFD); err != nil {
		return err
	}
	q, h, err := c.newCQ(req)
	if err != nil {
		return err
	}
	c.created(uapi.AttrCreateCQHandle, uint64(h))
	return c.orDrop(h, output(c, uapi.AttrCreateCQRespCQE, q.entries-1))
}

// asyncFile is the event file that an attribute names, or the context's.
func (c *call) asyncFile(id uint16) (*eventFile, error) {
	a := c.req.Find(id)
	if a == nil {
		return c.file.async, nil
	}
	if e := c.eventsOf(int(a.Data()), asyncRecord); e != nil {
		return e, nil
	}
	return nil, refuse(ebadf, "event file %d", a.Data())
}

// orDrop destroys a new object whose response could not be delivered.
func (c *call) orDrop(handle uint32, err error) error {
	if err != nil {
		c.file.drop(handle)
	}
	return err
}

const cqFlags = uapi.CQTimestampCompletion | uapi.CQIgnoreOverrun

// newCQ creates the queue and writes the driver's response.
func (c *call) newCQ(r cqRequest) (*cq, uint32, error) {
	f, n := c.file, c.nic
	udata, err := in[prm.CreateCQRequest](c, c.uhwIn)
	if err != nil {
		return nil, 0, err
	}
	q := &cq{mem: c.mem, origin: c.origin, user: r.user, async: r.async, buf: udata.BufAddr, record: udata.RecordAddr,
		entrySize: udata.EntrySize, ignore: r.flags&uapi.CQIgnoreOverrun != 0}
	if r.channel != -1 {
		if q.channel = c.eventsOf(int(r.channel), completionRecord); q.channel == nil {
			return nil, 0, refuse(ebadf, "completion channel %d", r.channel)
		}
	}
	switch {
	case r.vector >= completionVectors:
		return nil, 0, refuse(einval, "completion vector %d", r.vector)
	case r.flags&^cqFlags != 0:
		return nil, 0, refuse(einval, "flags %#x", r.flags)
	case r.cqe >= uint32(n.lim.CQEntries):
		return nil, 0, refuse(einval, "%d entries, limit %d", r.cqe, n.lim.CQEntries-1)
	case n.count.CQs >= n.lim.CQs:
		return nil, 0, refuse(enomem, "%d completion queues", n.count.CQs)
	}
	q.entries = 1 << bits.Len32(r.cqe) // cqe+1 rounded up
	if err := c.checkCQUdata(udata, q, r.page); err != nil {
		return nil, 0, err
	}
	if q.fixed, err = f.pin(c.mem, q.record, prm.RecordSize, true); err != nil {
		return nil, 0, err
	}
	if q.charge, err = f.pin(c.mem, q.buf, q.size(), true); err != nil {
		f.unpin(q.fixed)
		return nil, 0, err
	}
	c.markUnarmed(q)
	n.addCQ(q)
	h := c.add(uapi.ObjectCQ, q)
	// The kernel writes the number without asking how much room there is.
	if c.uhwOut.Len() < 4 {
		err = refuse(efault, "no room for the queue's number")
	} else {
		err = out(c, c.uhwOut, prm.CreateCQResponse{CQN: q.cqn})
	}
	return q, h, c.orDrop(h, err)
}

// checkCQUdata judges the driver's request and finds the doorbell page.
func (c *call) checkCQUdata(u prm.CreateCQRequest, q *cq, page uapi.Attr) error {
	const minLength = 24 // without the fields of newer libraries
	f := c.file
	known := uint16(prm.CQUARPageIndex)
	if c.nic.cfg.OldKernel {
		known = 0
	}
	switch {
	case c.uhwIn.Len() < minLength:
		return refuse(einval, "driver request of %d bytes", c.uhwIn.Len())
	case u.EntrySize != prm.CQESize && u.EntrySize != 2*prm.CQESize:
		return refuse(einval, "entries of %d bytes", u.EntrySize)
	case u.Flags&^known != 0, u.Reserved0 != 0, u.Reserved1 != 0:
		return refuse(einval, "flags %#x, reserved %#x %#x", u.Flags, u.Reserved0, u.Reserved1)
	case u.Compress != 0 || u.CompressionFormat != 0:
		return refuse(enotsup, "compressed completions")
	case q.record%prm.RecordSize != 0:
		return refuse(einval, "doorbell record at %#x", q.record)
	case f.dynamic() && u.Flags&prm.CQUARPageIndex != 0:
		q.uar = f.page(uint32(u.UARPage))
	case f.dynamic() && page != nil:
		q.uar = f.page(uint32(c.word(page.ID())))
	case !f.dynamic():
		q.uar = f.staticPages[0]
	}
	if q.uar == nil {
		return refuse(einval, "no such doorbell page")
	}
	return nil
}

// pinQueue pins a queue's buffer and the page of its doorbell record.
func (c *call) pinQueue(buf, size, record uint64) (charge int64, err error) {
	f := c.file
	if size > 0 {
		if charge, err = f.pin(c.mem, buf, size, true); err != nil {
			return 0, err
		}
	}
	more, err := f.pin(c.mem, record, prm.RecordSize, true)
	if err != nil {
		f.unpin(charge)
		return 0, err
	}
	return charge + more, nil
}

func (c *call) destroyCQ(inv uapi.Invoke) error {
	req, err := core[uapi.DestroyCQ](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectCQ, uint64(req.CQHandle), inv.Reply)
}

func (c *call) destroyCQNative() error {
	return c.destroy(uapi.ObjectCQ, c.req.Find(uapi.AttrDestroyCQHandle).Data(), c.req.Find(uapi.AttrDestroyCQResp))
}
