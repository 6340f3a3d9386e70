package prm

import (
	"structs"
	"unsafe"
)

// The driver data ("udata") of the kernel's commands, rdma/mlx5-abi.h. Fields are
// in the host's byte order. Lengths matter: the kernel tells versions apart by
// them.

// DriverID is the number of the mlx5 driver (rdma/ib_user_ioctl_verbs.h,
// RDMA_DRIVER_MLX5), ABIVersion the version its uverbs device must show
// (MLX5_IB_UVERBS_ABI_VERSION).
const (
	DriverID   = 1
	ABIVersion = 1
)

// Capabilities of the library in AllocContextRequest.LibCaps (MLX5_LIB_CAP_*).
const (
	LibCap4KUAR  = 1 << 0 // it knows pages of 4 KiB on a host with larger ones
	LibCapDynUAR = 1 << 1 // it allocates its pages; old kernels do not look at it
)

// ContextDevX is the flag of AllocContextRequest that asks for the raw command
// interface (MLX5_IB_ALLOC_UCTX_DEVX).
const ContextDevX = 1 << 0

// AllocContextRequest is struct mlx5_ib_alloc_ucontext_req_v2.
type AllocContextRequest struct {
	_                   structs.HostLayout
	TotalRegisters      uint32
	LowLatencyRegisters uint32
	Flags               uint32
	CompMask            uint32
	MaxCQEVersion       uint8
	Reserved0           uint8
	Reserved1           uint16
	Reserved2           uint32
	LibCaps             uint64
}

// Bits of AllocContextResponse.CompMask (MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_*).
const (
	ContextCoreClock    = 1 << 0
	ContextDumpFillKey  = 1 << 1
	ContextECE          = 1 << 2
	ContextSQDToRTS     = 1 << 3
	ContextRealTime     = 1 << 4
	ContextKeyUpdateTag = 1 << 5
)

// AllocContextResponse is struct mlx5_ib_alloc_ucontext_resp. TotalRegisters is 0
// where the library allocates its pages itself; BlueFlameSize is 0 where there is
// no write combining.
type AllocContextResponse struct {
	_                 structs.HostLayout
	QPTableSize       uint32
	BlueFlameSize     uint32
	TotalRegisters    uint32
	CacheLineSize     uint32
	MaxSendEntry      uint16 // bytes
	MaxReceiveEntry   uint16 // bytes
	MaxSendBlocks     uint32
	MaxReceives       uint32
	MaxSharedReceives uint32
	Ports             uint16
	FlowActionFlags   uint16
	CompMask          uint32
	ResponseLength    uint32
	CQEVersion        uint8
	CommandsWithUHW   uint8
	EthMinInline      uint8
	ClockInfoVersions uint8
	CoreClockOffset   uint64
	LogUARSize        uint32
	UARsPerPage       uint32
	DynamicRegisters  uint32
	DumpFillKey       uint32
}

// Bits of QueryDeviceResponse.Flags (MLX5_IB_QUERY_DEV_RESP_*).
const (
	DeviceCompress128   = 1 << 0
	DevicePad128        = 1 << 1
	DevicePacketCredits = 1 << 2
	DeviceScatterDCT    = 1 << 3
)

// QueryDeviceResponse is struct mlx5_ib_query_device_resp, the driver's part of the
// extended device query. The NIC's driver fills what fits into the room given.
type QueryDeviceResponse struct {
	_                  structs.HostLayout
	CompMask           uint32
	ResponseLength     uint32
	MaxTSO             uint32
	TSOTypes           uint32
	HashFields         uint64
	HashFunction       uint8
	Reserved0          [7]uint8
	CompressionMax     uint32
	CompressionFormats uint32
	RateMin            uint32 // kbit/s
	RateMax            uint32
	RateTypes          uint32
	RateFlags          uint8
	Reserved1          [3]uint8
	MultiPacketSend    uint32
	Flags              uint32
	ParsingOffloads    uint32
	ParsingTypes       uint32
	MinLogStride       uint32
	MaxLogStride       uint32
	MinLogStrides      uint32
	MaxLogStrides      uint32
	StridingTypes      uint32
	Reserved2          uint32
	TunnelOffloads     uint32
	MaxLogStreams      uint8
	MaxLogErrStreams   uint8
	Reserved3          uint16
}

// AllocPDResponse is struct mlx5_ib_alloc_pd_resp. The kernel writes it
// unconditionally: a command without room for it fails with EFAULT.
type AllocPDResponse struct {
	_   structs.HostLayout
	PDN uint32
}

// Flags of CreateCQRequest (MLX5_IB_CREATE_CQ_FLAGS_*). Old kernels refuse the
// ones they do not know.
const (
	CQPad128       = 1 << 0
	CQUARPageIndex = 1 << 1
	CQRealTime     = 1 << 2
)

// CreateCQRequest is struct mlx5_ib_create_cq.
type CreateCQRequest struct {
	_                 structs.HostLayout
	BufAddr           uint64
	RecordAddr        uint64
	EntrySize         uint32
	Compress          uint8
	CompressionFormat uint8
	Flags             uint16
	UARPage           uint16
	Reserved0         uint16
	Reserved1         uint32
}

// ResizeCQRequest is struct mlx5_ib_resize_cq.
type ResizeCQRequest struct {
	_         structs.HostLayout
	BufAddr   uint64
	EntrySize uint16
	Reserved0 uint16
	Reserved1 uint32
}

// CreateCQResponse is struct mlx5_ib_create_cq_resp, mandatory as AllocPDResponse is.
type CreateCQResponse struct {
	_        structs.HostLayout
	CQN      uint32
	Reserved uint32
}

// Flags of CreateQPRequest (MLX5_QP_FLAG_*).
const (
	QPSignature         = 1 << 0
	QPScatterCQE        = 1 << 1
	QPTunnelOffloads    = 1 << 2
	QPRegisterIndex     = 1 << 3
	QPTypeDCT           = 1 << 4
	QPTypeDCI           = 1 << 5
	QPSelfLoopUnicast   = 1 << 6
	QPSelfLoopMulticast = 1 << 7
	QPAllowScatterCQE   = 1 << 8
	QPPacketCredits     = 1 << 9
	QPUARPageIndex      = 1 << 10
	QPDCIStream         = 1 << 11
)

// NoUserIndex is the user index of every queue pair of a context with CQE
// version 0, and of none with version 1.
const NoUserIndex = 0xffffff

// NoRegister is the register in the response of a queue pair whose request named
// its doorbell page (MLX5_IB_INVALID_BFREG).
const NoRegister = 1<<32 - 1

// CreateQPRequest is struct mlx5_ib_create_qp. The buffer has the receive queue
// first and the send queue behind it.
type CreateQPRequest struct {
	_             structs.HostLayout
	BufAddr       uint64
	RecordAddr    uint64
	SendBlocks    uint32
	Receives      uint32
	ReceiveShift  uint32 // log2 of the stride in bytes
	Flags         uint32
	UserIndex     uint32
	Register      uint32 // doorbell page with QPUARPageIndex
	SendBufAddr   uint64 // or access key; 0 for a reliable connection
	ECEOptions    uint32
	LogStreams    uint8
	LogErrStreams uint8
	Reserved      uint16
}

// CreateQPResponse is struct mlx5_ib_create_qp_resp.
type CreateQPResponse struct {
	_          structs.HostLayout
	Register   uint32
	ECEOptions uint32
	CompMask   uint32
	TIRN       uint32
	TISN       uint32
	RQN        uint32
	SQN        uint32
	Reserved   uint32
	TIRAddr    uint64
}

// SRQSignature is the flag of CreateSRQRequest (MLX5_SRQ_FLAG_SIGNATURE).
const SRQSignature = 1 << 0

// CreateSRQRequest is struct mlx5_ib_create_srq.
type CreateSRQRequest struct {
	_          structs.HostLayout
	BufAddr    uint64
	RecordAddr uint64
	Flags      uint32
	Reserved0  uint32
	UserIndex  uint32
	Reserved1  uint32
}

// CreateSRQResponse is struct mlx5_ib_create_srq_resp.
type CreateSRQResponse struct {
	_        structs.HostLayout
	SRQN     uint32
	Reserved uint32
}

// CreateAHResponse is struct mlx5_ib_create_ah_resp, mandatory on Ethernet as far as
// the address that the kernel has resolved.
type CreateAHResponse struct {
	_              structs.HostLayout
	ResponseLength uint32
	DMAC           [6]byte
	Reserved       [6]byte
}

// ModifyQPRequest is struct mlx5_ib_modify_qp.
type ModifyQPRequest struct {
	_             structs.HostLayout
	CompMask      uint32
	MaxBurst      uint32
	TypicalPacket uint16
	Reserved      uint16
	ECEOptions    uint32
}

// ModifyQPResponse is struct mlx5_ib_modify_qp_resp.
type ModifyQPResponse struct {
	_              structs.HostLayout
	ResponseLength uint32
	DCTN           uint32
	ECEOptions     uint32
	Reserved       uint32
}

// The sizes the kernel expects; a struct of another size does not compile.
var (
	_ [32]byte  = [unsafe.Sizeof(AllocContextRequest{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(AllocContextResponse{})]byte{}
	_ [104]byte = [unsafe.Sizeof(QueryDeviceResponse{})]byte{}
	_ [4]byte   = [unsafe.Sizeof(AllocPDResponse{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(CreateCQRequest{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(ResizeCQRequest{})]byte{}
	_ [8]byte   = [unsafe.Sizeof(CreateCQResponse{})]byte{}
	_ [56]byte  = [unsafe.Sizeof(CreateQPRequest{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(CreateQPResponse{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(CreateSRQRequest{})]byte{}
	_ [8]byte   = [unsafe.Sizeof(CreateSRQResponse{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(CreateAHResponse{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(ModifyQPRequest{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(ModifyQPResponse{})]byte{}
)

// Bytes is the memory of *v, which must be a struct without Go pointers: one of
// this file's. It aliases *v.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
