package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// What the context's response promises, as a ConnectX with ordinary firmware does.
const (
	completionVectors = 1
	maxReceiveEntry   = 512  // bytes
	maxSendEntry      = 1024 // bytes
	maxRegisters      = 512
	cacheLine         = 64
)

func (c *call) getContext() error {
	resp, err := c.newContext()
	if err != nil {
		return err
	}
	if err := c.contextOutputs(resp); err != nil {
		return c.endContext(err)
	}
	return nil
}

// contextOutputs writes what GET_CONTEXT and QUERY_CONTEXT have in common.
func (c *call) contextOutputs(resp prm.AllocContextResponse) error {
	if err := output(c, uapi.AttrContextNumCompVectors, uint32(completionVectors)); err != nil {
		return err
	}
	if err := output(c, uapi.AttrContextCoreSupport, uint64(uapi.CoreSupportOptionalMRAccess)); err != nil {
		return err
	}
	return c.driverResponse(resp)
}

func (c *call) driverResponse(resp prm.AllocContextResponse) error {
	resp.ResponseLength = uint32(min(c.uhwOut.Len(), uapi.Size[prm.AllocContextResponse]()))
	return out(c, c.uhwOut, resp)
}

// endContext undoes newContext when its response cannot be delivered.
func (c *call) endContext(err error) error {
	c.file.dropObjects()
	return err
}

// getContextLegacy also makes the asynchronous event file.
func (c *call) getContextLegacy(inv uapi.Invoke) error {
	resp, err := c.newContext()
	if err != nil {
		return err
	}
	if err := c.driverResponse(resp); err != nil {
		return c.endContext(err)
	}
	f := c.file
	e, err := c.newEvents(asyncRecord)
	if err != nil {
		return c.endContext(err)
	}
	f.async = e
	err = out(c, inv.Reply, uapi.GetContextResp{AsyncFD: uint32(e.fd), NumCompVectors: completionVectors})
	if err != nil {
		f.async = nil
		return c.endContext(err)
	}
	return nil
}

func (c *call) queryContext() error {
	if err := c.needContext(); err != nil {
		return err
	}
	c.uhwOut = c.req.Find(prm.AttrQueryContextResponse)
	return c.contextOutputs(c.nic.contextResponse(c.file))
}

// newContext is the driver's part: it judges the request and, in static mode,
// allocates the doorbell pages.
func (c *call) newContext() (resp prm.AllocContextResponse, err error) {
	f, n := c.file, c.nic
	if f.context {
		return resp, refuse(einval, "the file has a context")
	}
	req, err := c.contextRequest()
	if err != nil {
		return resp, err
	}
	f.oldCQE = n.cfg.OldCQE || req.MaxCQEVersion == 0
	if n.cfg.StaticUAR || req.LibCaps&prm.LibCapDynUAR == 0 {
		if err := c.allocStatic(req.TotalRegisters, req.LowLatencyRegisters); err != nil {
			return resp, err
		}
	}
	f.context = true
	n.count.Contexts++
	return n.contextResponse(f), nil
}

func (c *call) contextRequest() (req prm.AllocContextRequest, err error) {
	const oldLength = 8
	if size := c.uhwIn.Len(); size != oldLength && size < 16 {
		return req, refuse(einval, "driver request of %d bytes", size)
	}
	req, err = in[prm.AllocContextRequest](c, c.uhwIn)
	switch {
	case err != nil:
		return req, err
	case req.Flags != 0: // DEVX included, which this NIC does not have
		return req, refuse(einval, "context flags %#x", req.Flags)
	case req.CompMask != 0 || req.Reserved0 != 0 || req.Reserved1 != 0 || req.Reserved2 != 0:
		return req, refuse(enotsup, "reserved fields of the driver request are set")
	}
	return req, nil
}

// contextResponse is what this NIC's driver says about itself.
func (n *NIC) contextResponse(f *file) prm.AllocContextResponse {
	r := prm.AllocContextResponse{
		QPTableSize:       1 << 17,
		TotalRegisters:    uint32(len(f.registers)),
		CacheLineSize:     cacheLine,
		MaxSendEntry:      maxSendEntry,
		MaxReceiveEntry:   maxReceiveEntry,
		MaxSendBlocks:     uint32(n.lim.QPEntries),
		MaxReceives:       uint32(n.lim.QPEntries),
		MaxSharedReceives: uint32(n.lim.QPEntries),
		Ports:             1,
		CommandsWithUHW:   3, // QUERY_DEVICE and CREATE_AH
		ClockInfoVersions: 1 << prm.ClockInfoV1,
		LogUARSize:        12,
		UARsPerPage:       1,
	}
	if !n.cfg.NoBlueFlame {
		r.BlueFlameSize = blueFlameSize
	}
	if !f.oldCQE {
		r.CQEVersion = 1
	}
	return r
}

func (c *call) allocAsync() error {
	if err := c.needContext(); err != nil {
		return err
	}
	f := c.file
	e, err := c.newEvents(asyncRecord)
	if err != nil {
		return err
	}
	if f.async == nil {
		f.async = e
	}
	c.created(uapi.AttrAsyncEventFD, uint64(e.fd))
	return nil
}

// created stores the handle or descriptor of a new object in its attribute.
func (c *call) created(id uint16, v uint64) { c.req.Find(id).SetData(v) }

func (c *call) createChannel(inv uapi.Invoke) error {
	if _, err := core[uapi.CreateCompChannel](c, inv.Core); err != nil {
		return err
	}
	e, err := c.newEvents(completionRecord)
	if err != nil {
		return err
	}
	if err := out(c, inv.Reply, uapi.CreateCompChannelResp{FD: uint32(e.fd)}); err != nil {
		c.file.dropEvents(e)
		return err
	}
	return nil
}
