package softnic

import (
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// srqRequest is a shared receive queue wanted, by whichever command.
type srqRequest struct {
	user          uint64
	pd            *pd
	maxWR, maxSGE uint32
	async         *eventFile
}

// The limit that the commands carry is not looked at: the mlx5 driver arms none at
// creation.

func (c *call) createSRQ(inv uapi.Invoke) error {
	req, err := core[uapi.CreateSRQ](c, inv.Core)
	if err != nil {
		return err
	}
	r := srqRequest{user: req.UserHandle, maxWR: req.MaxWR, maxSGE: req.MaxSGE, async: c.file.async}
	if r.pd, err = lookupLegacy[*pd](c, uapi.ObjectPD, req.PDHandle); err != nil {
		return err
	}
	s, h, err := c.newSRQ(r)
	if err != nil {
		return err
	}
	return c.orDrop(h, out(c, inv.Reply, uapi.CreateSRQResp{SRQHandle: h, MaxWR: s.entries - 1, MaxSGE: s.segments}))
}

func (c *call) createSRQNative() error {
	if err := c.needContext(); err != nil {
		return err
	}
	if kind := c.req.Find(uapi.AttrCreateSRQType).Data(); kind != uapi.SRQTypeBasic {
		return refuse(enotsup, "shared receive queue type %d", kind)
	}
	r := srqRequest{
		user:   c.word(uapi.AttrCreateSRQUserHandle),
		maxWR:  uint32(c.word(uapi.AttrCreateSRQMaxWR)),
		maxSGE: uint32(c.word(uapi.AttrCreateSRQMaxSGE)),
	}
	var err error
	if r.pd, err = native[*pd](c, uapi.ObjectPD, uapi.AttrCreateSRQPD); err != nil {
		return err
	}
	if r.async, err = c.asyncFile(uapi.AttrCreateSRQEventFD); err != nil {
		return err
	}
	s, h, err := c.newSRQ(r)
	if err != nil {
		return err
	}
	c.created(uapi.AttrCreateSRQHandle, uint64(h))
	if err = output(c, uapi.AttrCreateSRQRespMaxWR, s.entries-1); err == nil {
		err = output(c, uapi.AttrCreateSRQRespMaxSGE, s.segments)
	}
	return c.orDrop(h, err)
}

// newSRQ creates the queue and writes the driver's response.
func (c *call) newSRQ(r srqRequest) (*srq, uint32, error) {
	n := c.nic
	u, err := in[prm.CreateSRQRequest](c, c.uhwIn)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case n.count.SRQs >= n.lim.SRQs:
		return nil, 0, refuse(enomem, "%d shared receive queues", n.count.SRQs)
	case r.maxWR >= uint32(n.lim.QPEntries):
		return nil, 0, refuse(einval, "%d receives, limit %d", r.maxWR, n.lim.QPEntries-1)
	case r.maxSGE > n.sharedSegments():
		return nil, 0, refuse(einval, "%d segments, limit %d", r.maxSGE, n.sharedSegments())
	}
	if err := c.checkSRQUdata(u); err != nil {
		return nil, 0, err
	}
	s := &srq{mem: c.mem, origin: c.origin, user: r.user, pd: r.pd, async: r.async, buf: u.BufAddr, record: u.RecordAddr,
		entries:  1 << bits.Len32(r.maxWR), // maxWR+1 rounded up
		segments: r.maxSGE,
		stride:   prm.SharedStride(int(r.maxSGE)),
	}
	if s.charge, err = c.pinQueue(s.buf, uint64(s.entries)*uint64(s.stride), s.record); err != nil {
		return nil, 0, err
	}
	n.addSRQ(s)
	h := c.add(uapi.ObjectSRQ, s)
	// The kernel writes the number without asking how much room there is.
	if c.uhwOut.Len() < 4 {
		err = refuse(efault, "no room for the queue's number")
	} else {
		err = out(c, c.uhwOut, prm.CreateSRQResponse{SRQN: s.srqn})
	}
	return s, h, c.orDrop(h, err)
}

// sharedSegments is how many data segments a receive of a shared queue has at
// most: the link takes the place of one.
func (n *NIC) sharedSegments() uint32 { return uint32(n.lim.ReceiveSGE - 1) }

// checkSRQUdata judges the driver's request, of which queues of this type do not use
// the user index.
func (c *call) checkSRQUdata(u prm.CreateSRQRequest) error {
	const minLength = 16 // the addresses
	switch {
	case c.uhwIn.Len() < minLength:
		return refuse(einval, "driver request of %d bytes", c.uhwIn.Len())
	case u.Flags != 0: // signatures included, which this NIC does not have
		return refuse(einval, "flags %#x", u.Flags)
	case u.Reserved0 != 0 || u.Reserved1 != 0:
		return refuse(einval, "reserved fields of the driver request are set")
	case u.RecordAddr%prm.RecordSize != 0:
		return refuse(einval, "doorbell record at %#x", u.RecordAddr)
	}
	return nil
}

// modifySRQ arms the limit. As the mlx5 driver it does not resize, and takes no
// notice of bits it does not know.
func (c *call) modifySRQ(inv uapi.Invoke) error {
	req, err := core[uapi.ModifySRQ](c, inv.Core)
	if err != nil {
		return err
	}
	s, err := lookupLegacy[*srq](c, uapi.ObjectSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	if req.AttrMask&uapi.SRQAttrMaxWR != 0 {
		return refuse(einval, "shared receive queues are not resized")
	}
	if req.AttrMask&uapi.SRQAttrLimit == 0 {
		return nil
	}
	return s.arm(req.SRQLimit)
}

func (c *call) querySRQ(inv uapi.Invoke) error {
	req, err := core[uapi.QuerySRQ](c, inv.Core)
	if err != nil {
		return err
	}
	s, err := lookupLegacy[*srq](c, uapi.ObjectSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	return out(c, inv.Reply, uapi.QuerySRQResp{MaxWR: s.entries - 1, MaxSGE: s.segments, SRQLimit: s.limit})
}

func (c *call) destroySRQ(inv uapi.Invoke) error {
	req, err := core[uapi.DestroySRQ](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectSRQ, uint64(req.SRQHandle), inv.Reply)
}

func (c *call) destroySRQNative() error {
	return c.destroy(uapi.ObjectSRQ, c.req.Find(uapi.AttrDestroySRQHandle).Data(), c.req.Find(uapi.AttrDestroySRQResp))
}
