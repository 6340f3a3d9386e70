package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

func (c *call) allocPD(inv uapi.Invoke) error {
	if _, err := core[uapi.AllocPD](c, inv.Core); err != nil {
		return err
	}
	d, err := c.nic.newPD()
	if err != nil {
		return err
	}
	h := c.add(uapi.ObjectPD, d)
	if err = mandatoryOut(c, prm.AllocPDResponse{PDN: d.number}); err == nil {
		err = out(c, inv.Reply, uapi.AllocPDResp{PDHandle: h})
	}
	if err != nil {
		c.file.drop(h)
	}
	return err
}

func (c *call) deallocPD(inv uapi.Invoke) error {
	req, err := core[uapi.DeallocPD](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectPD, uint64(req.PDHandle), uapi.Attr{})
}

func (c *call) destroyPD() error {
	return c.destroy(uapi.ObjectPD, c.req.Find(uapi.AttrDestroyPDHandle).Data(), uapi.Attr{})
}

// queryPD tells the number of a domain that another process, or a program's other
// part, has made with the same file.
func (c *call) queryPD() error {
	d, err := lookup[*pd](c, uapi.ObjectPD, c.req.Find(prm.AttrQueryPDHandle).Data())
	if err != nil {
		return err
	}
	return output(c, prm.AttrQueryPDNumber, d.number)
}

// Access bits of regions. Memory windows can be bound by none of this NIC's
// queue pairs, but the bit is harmless.
const regionAccess = uapi.AccessLocalWrite | uapi.AccessRemoteWrite | uapi.AccessRemoteRead |
	uapi.AccessRemoteAtomic | uapi.AccessMWBind | uapi.AccessZeroBased | uapi.AccessHugeTLB | uapi.AccessOptional

func (n *NIC) checkAccess(access uint32) error {
	switch {
	case access&^(regionAccess|uapi.AccessOnDemand) != 0:
		return refuse(einval, "access %#x", access)
	case access&(uapi.AccessRemoteWrite|uapi.AccessRemoteAtomic) != 0 && access&uapi.AccessLocalWrite == 0:
		return refuse(einval, "access %#x: remote write or atomic without local write", access)
	case access&uapi.AccessOnDemand != 0 && n.cfg.OldKernel:
		return refuse(einval, "access %#x: no pages on demand", access)
	case access&uapi.AccessOnDemand != 0: // ib_check_mr_access of newer kernels
		return refuse(enotsup, "access %#x: no pages on demand", access)
	}
	return nil
}

func (c *call) registerMR(inv uapi.Invoke) error {
	req, err := core[uapi.RegMR](c, inv.Core)
	if err != nil {
		return err
	}
	if mask := uint64(pageSize() - 1); req.Start&mask != req.HcaVa&mask {
		return refuse(einval, "start %#x and address %#x differ within a page", req.Start, req.HcaVa)
	}
	if err := c.checkRegion(req.Start, req.HcaVa, req.Length, req.AccessFlags); err != nil {
		return err
	}
	d, err := lookupLegacy[*pd](c, uapi.ObjectPD, req.PDHandle)
	if err != nil {
		return err
	}
	m := &mr{pd: d, mem: c.mem, start: req.Start, va: req.HcaVa, length: req.Length, access: req.AccessFlags}
	if m.charge, err = c.pinRegion(m); err != nil {
		return err
	}
	h := c.addRegion(m)
	if err := out(c, inv.Reply, uapi.RegMRResp{MRHandle: h, Lkey: m.key, Rkey: m.key}); err != nil {
		c.file.drop(h)
		return err
	}
	return nil
}

// checkRegion judges what all registrations have in common.
func (c *call) checkRegion(start, va, length uint64, access uint32) error {
	n := c.nic
	if err := n.checkRange(start, va, length); err != nil {
		return err
	}
	if n.count.MRs >= n.lim.MRs {
		return refuse(enomem, "%d memory regions", n.count.MRs)
	}
	return n.checkAccess(access)
}

func (n *NIC) checkRange(start, va, length uint64) error {
	switch {
	case length == 0 || start+length < start || va+length < va:
		return refuse(einval, "region of %d bytes at %#x", length, start)
	case length > uint64(n.lim.RegionBytes):
		return refuse(einval, "region of %d bytes, limit %d", length, n.lim.RegionBytes)
	}
	return nil
}

// pinRegion pins a region's memory. That takes time in proportion to it, so the
// NIC works on meanwhile; the domain is kept by a use of it.
func (c *call) pinRegion(m *mr) (charge int64, err error) {
	if charge, err = c.file.charge(m.start, m.length); err != nil {
		return 0, err
	}
	m.pd.users++
	c.nic.unlock()
	ok := c.mem.Pin(m.start, m.length, m.access&uapi.AccessLocalWrite != 0)
	c.nic.lock()
	m.pd.users--
	switch {
	case c.nic.failed:
		err = refuse(eio, "device has failed")
	case !ok:
		err = refuse(efault, "memory at %#x, %d bytes, is not accessible", m.start, m.length)
	}
	if err != nil {
		c.file.unpin(charge)
		return 0, err
	}
	return charge, nil
}

func (c *call) addRegion(m *mr) (handle uint32) {
	c.nic.addRegion(m)
	return c.add(uapi.ObjectMR, m)
}

func (c *call) deregisterMR(inv uapi.Invoke) error {
	req, err := core[uapi.DeregMR](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectMR, uint64(req.MRHandle), uapi.Attr{})
}

func (c *call) destroyMR() error {
	return c.destroy(uapi.ObjectMR, c.req.Find(uapi.AttrDestroyMRHandle).Data(), uapi.Attr{})
}

func (c *call) queryMR() error {
	m, err := lookup[*mr](c, uapi.ObjectMR, c.req.Find(uapi.AttrQueryMRHandle).Data())
	if err != nil {
		return err
	}
	if err := output(c, uapi.AttrQueryMRLKey, m.key); err != nil {
		return err
	}
	if err := output(c, uapi.AttrQueryMRRKey, m.key); err != nil {
		return err
	}
	if err := output(c, uapi.AttrQueryMRLength, m.length); err != nil {
		return err
	}
	return output(c, uapi.AttrQueryMRIOVA, m.va)
}
