package softnic

import "github.com/farwire/farwire/internal/uapi"

const reregFlags = uapi.ReregTranslation | uapi.ReregPD | uapi.ReregAccess

// reregisterMR changes a region under its keys. What is under way sees the old one or
// the new one.
func (c *call) reregisterMR(inv uapi.Invoke) error {
	req, err := core[uapi.ReregMR](c, inv.Core)
	if err != nil {
		return err
	}
	has := func(bit uint32) bool { return req.Flags&bit != 0 }
	mask := uint64(pageSize() - 1)
	switch {
	case req.Flags == 0:
		return refuse(einval, "nothing is to change")
	case req.Flags&^uint32(reregFlags) != 0:
		return refuse(enotsup, "flags %#x", req.Flags)
	case has(uapi.ReregTranslation) && req.Start&mask != req.HcaVa&mask:
		return refuse(einval, "start %#x and address %#x differ within a page", req.Start, req.HcaVa)
	}
	m, err := lookupLegacy[*mr](c, uapi.ObjectMR, req.MRHandle)
	if err != nil {
		return err
	}
	if m.release != nil {
		return refuse(enotsup, "region of a descriptor")
	}
	next := *m
	if has(uapi.ReregAccess) {
		if err := c.nic.checkAccess(req.AccessFlags); err != nil {
			return err
		}
		next.access = req.AccessFlags
	}
	if has(uapi.ReregPD) {
		if next.pd, err = lookupLegacy[*pd](c, uapi.ObjectPD, req.PDHandle); err != nil {
			return err
		}
	}
	if has(uapi.ReregTranslation) {
		if err := c.nic.checkRange(req.Start, req.HcaVa, req.Length); err != nil {
			return err
		}
		next.mem, next.start, next.va, next.length = c.mem, req.Start, req.HcaVa, req.Length
	}
	if err := c.replaceRegion(req.MRHandle, m, next); err != nil {
		return err
	}
	return out(c, inv.Reply, uapi.ReregMRResp{Lkey: m.key, Rkey: m.key})
}

// replaceRegion pins what the region is to be, and makes it that if it is still
// there.
func (c *call) replaceRegion(handle uint32, m *mr, next mr) (err error) {
	if next.charge, err = c.pinRegion(&next); err != nil {
		return err
	}
	if now, err := lookupLegacy[*mr](c, uapi.ObjectMR, handle); err != nil || now != m {
		c.file.unpin(next.charge)
		return refuse(einval, "region is gone")
	}
	c.file.unpin(m.charge)
	m.pd.users--
	next.pd.users++
	*m = next
	return nil
}
