package uapi

import "structs"

// GetContext is the request of GET_CONTEXT (struct ib_uverbs_get_context).
type GetContext struct {
	_        structs.HostLayout
	Response uint64
}

// GetContextResp answers it (struct ib_uverbs_get_context_resp).
type GetContextResp struct {
	_              structs.HostLayout
	AsyncFD        uint32
	NumCompVectors uint32
}

// QueryDevice is struct ib_uverbs_query_device.
type QueryDevice struct {
	_        structs.HostLayout
	Response uint64
}

// QueryDeviceResp is struct ib_uverbs_query_device_resp.
type QueryDeviceResp struct {
	_                     structs.HostLayout
	FwVer                 uint64
	NodeGUID              [8]byte // big endian
	SysImageGUID          [8]byte // big endian
	MaxMRSize             uint64
	PageSizeCap           uint64
	VendorID              uint32
	VendorPartID          uint32
	HwVer                 uint32
	MaxQP                 uint32
	MaxQPWR               uint32
	DeviceCapFlags        uint32
	MaxSGE                uint32
	MaxSGERd              uint32
	MaxCQ                 uint32
	MaxCQE                uint32
	MaxMR                 uint32
	MaxPD                 uint32
	MaxQPRdAtom           uint32
	MaxEERdAtom           uint32
	MaxResRdAtom          uint32
	MaxQPInitRdAtom       uint32
	MaxEEInitRdAtom       uint32
	AtomicCap             uint32
	MaxEE                 uint32
	MaxRDD                uint32
	MaxMW                 uint32
	MaxRawIpv6QP          uint32
	MaxRawEthyQP          uint32
	MaxMcastGrp           uint32
	MaxMcastQPAttach      uint32
	MaxTotalMcastQPAttach uint32
	MaxAH                 uint32
	MaxFMR                uint32
	MaxMapPerFMR          uint32
	MaxSRQ                uint32
	MaxSRQWR              uint32
	MaxSRQSGE             uint32
	MaxPkeys              uint16
	LocalCaAckDelay       uint8
	PhysPortCnt           uint8
	Reserved              [4]byte
}

// ExQueryDevice is struct ib_uverbs_ex_query_device.
type ExQueryDevice struct {
	_        structs.HostLayout
	CompMask uint32
	Reserved uint32
}

// OdpCaps is struct ib_uverbs_odp_caps.
type OdpCaps struct {
	_           structs.HostLayout
	GeneralCaps uint64
	RC          uint32
	UC          uint32
	UD          uint32
	Reserved    uint32
}

// Bits of OdpCaps.GeneralCaps and of its transport words (ib_verbs.h, enum
// ib_odp_general_cap_bits and ib_odp_transport_cap_bits).
const (
	OdpSupport         = 1 << 0
	OdpSupportImplicit = 1 << 1

	OdpSend   = 1 << 0
	OdpRecv   = 1 << 1
	OdpWrite  = 1 << 2
	OdpRead   = 1 << 3
	OdpAtomic = 1 << 4
	OdpSRQ    = 1 << 5
)

// RssCaps is struct ib_uverbs_rss_caps.
type RssCaps struct {
	_                          structs.HostLayout
	SupportedQpts              uint32
	MaxRwqIndirectionTables    uint32
	MaxRwqIndirectionTableSize uint32
	Reserved                   uint32
}

// TmCaps is struct ib_uverbs_tm_caps.
type TmCaps struct {
	_              structs.HostLayout
	MaxRndvHdrSize uint32
	MaxNumTags     uint32
	Flags          uint32
	MaxOps         uint32
	MaxSGE         uint32
	Reserved       uint32
}

// CqModerationCaps is struct ib_uverbs_cq_moderation_caps.
type CqModerationCaps struct {
	_                     structs.HostLayout
	MaxCqModerationCount  uint16
	MaxCqModerationPeriod uint16
	Reserved              uint32
}

// ExQueryDeviceResp is struct ib_uverbs_ex_query_device_resp. The kernel fills
// ResponseLength bytes of it.
type ExQueryDeviceResp struct {
	_                structs.HostLayout
	Base             QueryDeviceResp
	CompMask         uint32
	ResponseLength   uint32
	OdpCaps          OdpCaps
	TimestampMask    uint64
	HcaCoreClock     uint64 // kHz
	DeviceCapFlagsEx uint64
	RssCaps          RssCaps
	MaxWqTypeRQ      uint32
	RawPacketCaps    uint32
	TmCaps           TmCaps
	CqModerationCaps CqModerationCaps
	MaxDmSize        uint64
	XrcOdpCaps       uint32
	Reserved         uint32
}

// QueryPort is struct ib_uverbs_query_port.
type QueryPort struct {
	_        structs.HostLayout
	Response uint64
	PortNum  uint8
	Reserved [7]byte
}

// QueryPortResp is struct ib_uverbs_query_port_resp.
type QueryPortResp struct {
	_             structs.HostLayout
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPkeyCntr   uint32
	QkeyViolCntr  uint32
	GidTblLen     uint32
	PkeyTblLen    uint16
	Lid           uint16
	SmLid         uint16
	State         uint8
	MaxMTU        uint8
	ActiveMTU     uint8
	Lmc           uint8
	MaxVlNum      uint8
	SmSl          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint8
	PhysState     uint8
	LinkLayer     uint8
	Flags         uint8
	Reserved      uint8
}

// PortGRHRequired in QueryPortResp.Flags (IB_UVERBS_QPF_GRH_REQUIRED).
const PortGRHRequired = 1 << 0

// PortIPBasedGIDs in QueryPortResp.PortCapFlags (IB_UVERBS_PCF_IP_BASED_GIDS).
const PortIPBasedGIDs = 1 << 26

// Link layers in QueryPortResp.LinkLayer (ib_verbs.h, enum rdma_link_layer).
const (
	LinkLayerInfiniBand = 1
	LinkLayerEthernet   = 2
)

// QueryPortRespEx is the response of the native QUERY_PORT (struct
// ib_uverbs_query_port_resp_ex).
type QueryPortRespEx struct {
	_             structs.HostLayout
	LegacyResp    QueryPortResp
	PortCapFlags2 uint16
	Reserved      [6]byte
}

// GIDEntry is struct ib_uverbs_gid_entry.
type GIDEntry struct {
	_             structs.HostLayout
	GID           [16]byte // wire order
	GIDIndex      uint32
	PortNum       uint32
	GIDType       uint32
	NetdevIfindex uint32
}

// Values of GIDEntry.GIDType (enum ib_uverbs_gid_type).
const (
	GIDTypeIB     = 0
	GIDTypeRoCEv1 = 1
	GIDTypeRoCEv2 = 2
)
