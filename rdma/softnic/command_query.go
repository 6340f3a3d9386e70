package softnic

import (
	"syscall"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// Identity of the NIC: a ConnectX-5 of Mellanox.
const (
	vendorID     = 0x02c9
	vendorPart   = 4119
	firmware     = 16<<32 | 35<<16 | 4000
	coreClock    = 1000000                             // kHz: timestamps count nanoseconds
	capabilities = 1<<5 | 1<<6 | 1<<10 | 1<<11 | 1<<12 // port events, P_Key counters, system image GUID, RC RNR NAKs, ...
)

func (n *NIC) deviceAttributes() uapi.QueryDeviceResp {
	l := &n.lim
	return uapi.QueryDeviceResp{
		FwVer:           firmware,
		NodeGUID:        n.guid,
		SysImageGUID:    n.guid,
		MaxMRSize:       uint64(l.RegionBytes),
		PageSizeCap:     ^uint64(pageSize() - 1),
		VendorID:        vendorID,
		VendorPartID:    vendorPart,
		MaxQP:           uint32(l.QPs),
		MaxQPWR:         uint32(l.QPEntries),
		DeviceCapFlags:  capabilities,
		MaxSGE:          uint32(min(l.SendSGE, l.ReceiveSGE)),
		MaxSGERd:        uint32(l.SendSGE),
		MaxCQ:           uint32(l.CQs),
		MaxCQE:          uint32(l.CQEntries - 1),
		MaxMR:           uint32(l.MRs),
		MaxPD:           uint32(l.PDs),
		MaxQPRdAtom:     uint32(l.ReadAtomics),
		MaxResRdAtom:    uint32(l.ReadAtomics * l.QPs),
		MaxQPInitRdAtom: uint32(l.ReadAtomics),
		AtomicCap:       1, // atomic among the queue pairs of this NIC
		MaxAH:           uint32(l.AHs),
		MaxSRQ:          uint32(l.SRQs),
		MaxSRQWR:        uint32(l.QPEntries - 1),
		MaxSRQSGE:       n.sharedSegments(),
		MaxPkeys:        1,
		LocalCaAckDelay: 16,
		PhysPortCnt:     1,
	}
}

func (c *call) queryDevice(inv uapi.Invoke) error {
	if _, err := core[uapi.QueryDevice](c, inv.Core); err != nil {
		return err
	}
	return out(c, inv.Reply, c.nic.deviceAttributes())
}

func (c *call) queryDeviceEx(inv uapi.Invoke) error {
	req, err := core[uapi.ExQueryDevice](c, inv.Core)
	if err != nil {
		return err
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return refuse(einval, "comp_mask %#x", req.CompMask)
	}
	return out(c, inv.Reply, uapi.ExQueryDeviceResp{
		Base:           c.nic.deviceAttributes(),
		ResponseLength: uint32(min(inv.Reply.Len(), uapi.Size[uapi.ExQueryDeviceResp]())),
		TimestampMask:  timestampMask,
		HcaCoreClock:   coreClock,
		CqModerationCaps: uapi.CqModerationCaps{
			MaxCqModerationCount: maxModerationCount, MaxCqModerationPeriod: maxModerationPeriod,
		},
	})
}

func (c *call) queryPort() error {
	if err := c.needContext(); err != nil {
		return err
	}
	if err := checkPort(c.req.Find(uapi.AttrQueryPortPort).Data()); err != nil {
		return err
	}
	return output(c, uapi.AttrQueryPortResp, uapi.QueryPortRespEx{LegacyResp: c.nic.portAttributes()})
}

// queryPortDriver is what the driver alone knows of the port: nothing, where a card is
// no switch of virtual functions.
func (c *call) queryPortDriver() error {
	if err := c.needContext(); err != nil {
		return err
	}
	if err := checkPort(c.word(prm.AttrQueryPortNumber)); err != nil {
		return err
	}
	return output(c, prm.AttrQueryPortResponse, prm.QueryPortResponse{})
}

func (c *call) queryPortLegacy(inv uapi.Invoke) error {
	req, err := core[uapi.QueryPort](c, inv.Core)
	if err != nil {
		return err
	}
	if err := checkPort(uint64(req.PortNum)); err != nil {
		return err
	}
	return out(c, inv.Reply, c.nic.portAttributes())
}

func checkPort(port uint64) error {
	if port != portNumber {
		return refuse(einval, "port %d", port)
	}
	return nil
}

// queryGIDTable lists the used slots, in entries of the size that the caller
// knows.
func (c *call) queryGIDTable() error {
	if err := c.needContext(); err != nil {
		return err
	}
	size := c.req.Find(uapi.AttrGIDTableEntrySize).Data()
	flags := c.word(uapi.AttrGIDTableFlags)
	entries := c.req.Find(uapi.AttrGIDTableEntries)
	switch {
	case flags != 0:
		return refuse(einval, "flags %#x", flags)
	case size < uint64(uapi.Size[uapi.GIDEntry]()) || size > 4096:
		return refuse(einval, "entries of %d bytes", size)
	case entries.Len()/int(size) < len(c.nic.gids):
		return refuse(einval, "room for %d entries of %d", entries.Len()/int(size), len(c.nic.gids))
	}
	table := make([]byte, 0, len(c.nic.gids)*int(size))
	for i := range c.nic.gids {
		e, _ := c.nic.gidEntry(uint64(i))
		table = append(table, uapi.Bytes(&e)...)
		table = append(table, make([]byte, (i+1)*int(size)-len(table))...)
	}
	if err := entries.CopyOut(c.mem, table); err != nil {
		return err
	}
	return output(c, uapi.AttrGIDTableNumEntries, uint64(len(c.nic.gids)))
}

func (c *call) queryGIDEntry() error {
	if err := c.needContext(); err != nil {
		return err
	}
	if err := checkPort(c.req.Find(uapi.AttrGIDEntryPort).Data()); err != nil {
		return err
	}
	flags := c.word(uapi.AttrGIDEntryFlags)
	i := c.req.Find(uapi.AttrGIDEntryIndex).Data()
	e, ok := c.nic.gidEntry(i)
	switch {
	case flags != 0:
		return refuse(einval, "flags %#x", flags)
	case i >= GIDSlots:
		return refuse(einval, "index %d", i)
	case !ok:
		return refuse(syscall.ENODATA, "slot %d is empty", i)
	}
	return output(c, uapi.AttrGIDEntryResp, e)
}
