package verbs

import (
	"encoding/binary"

	"github.com/farwire/farwire/internal/uapi"
)

// DeviceAttr are the limits of a device.
type DeviceAttr struct {
	FirmwareVersion uint64
	NodeGUID        uint64
	SystemGUID      uint64
	VendorID        uint32
	VendorPartID    uint32
	HardwareVersion uint32
	Ports           int

	MaxMRSize       uint64 // bytes
	PageSizes       uint64 // bit n set: pages of 1<<n bytes
	CapFlags        uint32 // ib_user_verbs.h, enum ib_uverbs_device_cap_flags
	MaxQP           uint32
	MaxQPWR         uint32 // work requests for each queue
	MaxSGE          uint32
	MaxSGERead      uint32 // segments of an RDMA read
	MaxCQ           uint32
	MaxCQE          uint32
	MaxMR           uint32
	MaxPD           uint32
	MaxPeerReads    uint32 // QPAttr.PeerReads
	MaxReads        uint32 // QPAttr.Reads
	AtomicCap       uint32 // 0 none, 1 among this device's queue pairs, 2 also with the CPU
	MaxSRQ          uint32
	MaxSRQWR        uint32
	MaxSRQSGE       uint32
	MaxPKeys        uint16
	LocalCAAckDelay uint8 // 4.096 µs << value
}

// DeviceAttrEx adds what newer kernels tell.
type DeviceAttrEx struct {
	DeviceAttr
	ODPCaps        uint64 // bit 0 on-demand paging, bit 1 implicit
	RCODPCaps      uint32 // operations on such memory: send 1, recv 2, write 4, read 8, atomic 16
	TimestampMask  uint64
	CoreClock      uint64 // kHz
	CapFlagsEx     uint64
	MaxCQModCount  uint16 // moderation: completions
	MaxCQModPeriod uint16 // moderation: µs
}

// QueryDevice returns the device's limits.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	var req uapi.QueryDevice
	var resp uapi.QueryDeviceResp
	if err := c.write(op{name: "query device"}, uapi.CmdQueryDevice, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil); err != nil {
		return DeviceAttr{}, err
	}
	return deviceAttr(&resp), nil
}

// QueryDeviceEx returns the device's limits and extended capabilities. in and
// out are the driver's parts. A driver without it answers EOPNOTSUPP.
func (c *Context) QueryDeviceEx(in, out []byte) (DeviceAttrEx, error) {
	var req uapi.ExQueryDevice
	var r uapi.ExQueryDeviceResp
	if err := c.write(op{name: "query device"}, uapi.CmdExQueryDevice, uapi.Bytes(&req), uapi.Bytes(&r), in, out); err != nil {
		return DeviceAttrEx{}, err
	}
	return DeviceAttrEx{
		DeviceAttr: deviceAttr(&r.Base), ODPCaps: r.OdpCaps.GeneralCaps, RCODPCaps: r.OdpCaps.RC,
		TimestampMask: r.TimestampMask, CoreClock: r.HcaCoreClock, CapFlagsEx: r.DeviceCapFlagsEx,
		MaxCQModCount: r.CqModerationCaps.MaxCqModerationCount, MaxCQModPeriod: r.CqModerationCaps.MaxCqModerationPeriod,
	}, nil
}

func deviceAttr(r *uapi.QueryDeviceResp) DeviceAttr {
	return DeviceAttr{
		FirmwareVersion: r.FwVer,
		NodeGUID:        binary.BigEndian.Uint64(r.NodeGUID[:]),
		SystemGUID:      binary.BigEndian.Uint64(r.SysImageGUID[:]),
		VendorID:        r.VendorID, VendorPartID: r.VendorPartID, HardwareVersion: r.HwVer, Ports: int(r.PhysPortCnt),
		MaxMRSize: r.MaxMRSize, PageSizes: r.PageSizeCap, CapFlags: r.DeviceCapFlags,
		MaxQP: r.MaxQP, MaxQPWR: r.MaxQPWR, MaxSGE: r.MaxSGE, MaxSGERead: r.MaxSGERd,
		MaxCQ: r.MaxCQ, MaxCQE: r.MaxCQE, MaxMR: r.MaxMR, MaxPD: r.MaxPD,
		MaxPeerReads: r.MaxQPRdAtom, MaxReads: r.MaxQPInitRdAtom, AtomicCap: r.AtomicCap,
		MaxSRQ: r.MaxSRQ, MaxSRQWR: r.MaxSRQWR, MaxSRQSGE: r.MaxSRQSGE,
		MaxPKeys: r.MaxPkeys, LocalCAAckDelay: r.LocalCaAckDelay,
	}
}

// PortAttr are the attributes of a port.
type PortAttr struct {
	State       PortState
	LinkLayer   LinkLayer
	MaxMTU      MTU
	ActiveMTU   MTU
	LID         uint16 // InfiniBand only, as is SMLID
	SMLID       uint16
	LMC         uint8
	SL          uint8 // service level of the subnet manager
	GRHRequired bool  // every Path must be Global
	MaxMsgSize  uint32
	GIDs        int // slots of the GID table
	PKeys       int
	CapFlags    uint32 // ib_user_ioctl_verbs.h, enum ib_uverbs_query_port_cap_flags
	Width       uint8  // lanes, coded: 1, 2 for 4, 4 for 8, 8 for 12, 16 for 2
	Speed       uint8  // rate of a lane, coded, at most NDR
	PhysState   uint8
}

// QueryPort returns the attributes of port, counted from 1.
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	req := uapi.QueryPort{PortNum: port}
	var r uapi.QueryPortResp
	if err := c.write(op{name: "query port"}, uapi.CmdQueryPort, uapi.Bytes(&req), uapi.Bytes(&r), nil, nil); err != nil {
		return PortAttr{}, err
	}
	return PortAttr{
		State: PortState(r.State), LinkLayer: LinkLayer(r.LinkLayer), MaxMTU: MTU(r.MaxMTU), ActiveMTU: MTU(r.ActiveMTU),
		LID: r.Lid, SMLID: r.SmLid, LMC: r.Lmc, SL: r.SmSl, GRHRequired: r.Flags&uapi.PortGRHRequired != 0,
		MaxMsgSize: r.MaxMsgSz, GIDs: int(r.GidTblLen), PKeys: int(r.PkeyTblLen), CapFlags: r.PortCapFlags,
		Width: r.ActiveWidth, Speed: r.ActiveSpeed, PhysState: r.PhysState,
	}, nil
}
