package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// ah is an address handle. It is nothing but what its creation has found out: the
// driver puts the address into each datagram.
type ah struct{ pd *pd }

func (c *call) createAH(inv uapi.Invoke) error {
	n := c.nic
	req, err := core[uapi.CreateAH](c, inv.Core)
	if err != nil {
		return err
	}
	d, err := lookupLegacy[*pd](c, uapi.ObjectPD, req.PDHandle)
	if err != nil {
		return err
	}
	a := &req.Attr
	if err := checkPort(uint64(a.PortNum)); err != nil {
		return err
	}
	if n.count.AHs >= n.lim.AHs {
		return refuse(enomem, "%d address handles", n.count.AHs)
	}
	if err := n.checkPath(pathOf(a)); err != nil {
		return err
	}
	if err := c.resolved(a); err != nil {
		return err
	}
	h := c.add(uapi.ObjectAH, &ah{pd: d})
	d.users++
	n.count.AHs++
	return c.orDrop(h, out(c, inv.Reply, uapi.CreateAHResp{AHHandle: h}))
}

// pathOf is an address as connections have it.
func pathOf(a *uapi.AHAttr) *uapi.QPDest {
	return &uapi.QPDest{
		Dgid: a.Grh.Dgid, FlowLabel: a.Grh.FlowLabel, SgidIndex: a.Grh.SgidIndex,
		HopLimit: a.Grh.HopLimit, TrafficClass: a.Grh.TrafficClass,
		Dlid: a.Dlid, Sl: a.Sl, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: a.IsGlobal, PortNum: a.PortNum,
	}
}

// resolved writes the driver's response: the MAC, which on Ethernet must be asked for.
func (c *call) resolved(a *uapi.AHAttr) error {
	if c.nic.cfg.LinkLayer != verbs.LinkEthernet {
		return nil
	}
	const length = 10 // up to the MAC
	if n := c.uhwOut.Len(); n < length {
		return refuse(einval, "driver response of %d bytes", n)
	}
	return out(c, c.uhwOut, prm.CreateAHResponse{ResponseLength: length, DMAC: macOf(verbs.GID(a.Grh.Dgid).Addr())})
}

func (c *call) destroyAH(inv uapi.Invoke) error {
	req, err := core[uapi.DestroyAH](c, inv.Core)
	if err != nil {
		return err
	}
	return c.destroy(uapi.ObjectAH, uint64(req.AHHandle), uapi.Attr{})
}

func (c *call) destroyAHNative() error {
	return c.destroy(uapi.ObjectAH, c.req.Find(uapi.AttrDestroyAHHandle).Data(), uapi.Attr{})
}
