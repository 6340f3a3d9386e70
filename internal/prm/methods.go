package prm

import "structs"

// The driver's own methods of the core's objects (rdma/mlx5_user_ioctl_cmds.h).
const (
	MethodPDQuery   = 0x1000 // MLX5_IB_METHOD_PD_QUERY, of the core's protection domain
	MethodQueryPort = 0x1000 // MLX5_IB_METHOD_QUERY_PORT, of the core's device

	// Attributes of MethodPDQuery (MLX5_IB_ATTR_QUERY_PD_*).
	AttrQueryPDHandle = 0x1000
	AttrQueryPDNumber = 0x1001 // out, 32 bits

	// Attributes of MethodQueryPort (MLX5_IB_ATTR_QUERY_PORT*).
	AttrQueryPortNumber   = 0x1000 // in, 32 bits
	AttrQueryPortResponse = 0x1001 // out: QueryPortResponse
)

// QueryPortResponse is struct mlx5_ib_uapi_query_port: what a port is in its card's
// switch. Flags says which fields are valid; none is where the card has one function
// alone.
type QueryPortResponse struct {
	_               structs.HostLayout
	Flags           uint64
	VPort           uint16
	VPortVHCA       uint16
	OwnerVHCA       uint16
	Reserved        uint16
	ReceiveSteering uint64
	SendSteering    uint64
	Register        uint32
	RegisterMask    uint32
}

// ClockInfo is struct mlx5_ib_clock_info, a page that says how the NIC's clock relates
// to the system's: at Cycles of the one the other was at Nanoseconds, and a tick is
// Mult>>Shift nanoseconds. Sign is odd while the kernel changes the page.
type ClockInfo struct {
	_              structs.HostLayout
	Sign           uint32
	Reserved       uint32
	Nanoseconds    uint64
	Cycles         uint64
	Fraction       uint64
	Mult           uint32
	Shift          uint32
	Mask           uint64
	OverflowPeriod uint64 // nanoseconds
}

// ClockInfoV1 is the bit of AllocContextResponse.ClockInfoVersions, and the index of
// the mapping, for ClockInfo (MLX5_IB_CLOCK_INFO_V1).
const ClockInfoV1 = 0
