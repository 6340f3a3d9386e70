package prm

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/coracle"
)

// abiStruct pairs one of the package's structs with the kernel's, and each field
// with the kernel's.
type abiStruct struct {
	value  any
	name   string
	fields string
}

var abiStructs = []abiStruct{
	{AllocContextRequest{}, "mlx5_ib_alloc_ucontext_req_v2", `
		TotalRegisters total_num_bfregs
		LowLatencyRegisters num_low_latency_bfregs
		Flags flags
		CompMask comp_mask
		MaxCQEVersion max_cqe_version
		Reserved0 reserved0
		Reserved1 reserved1
		Reserved2 reserved2
		LibCaps lib_caps
	`},
	{AllocContextResponse{}, "mlx5_ib_alloc_ucontext_resp", `
		QPTableSize qp_tab_size
		BlueFlameSize bf_reg_size
		TotalRegisters tot_bfregs
		CacheLineSize cache_line_size
		MaxSendEntry max_sq_desc_sz
		MaxReceiveEntry max_rq_desc_sz
		MaxSendBlocks max_send_wqebb
		MaxReceives max_recv_wr
		MaxSharedReceives max_srq_recv_wr
		Ports num_ports
		FlowActionFlags flow_action_flags
		CompMask comp_mask
		ResponseLength response_length
		CQEVersion cqe_version
		CommandsWithUHW cmds_supp_uhw
		EthMinInline eth_min_inline
		ClockInfoVersions clock_info_versions
		CoreClockOffset hca_core_clock_offset
		LogUARSize log_uar_size
		UARsPerPage num_uars_per_page
		DynamicRegisters num_dyn_bfregs
		DumpFillKey dump_fill_mkey
	`},
	{ClockInfo{}, "mlx5_ib_clock_info", `
		Sign sign
		Reserved resv
		Nanoseconds nsec
		Cycles cycles
		Fraction frac
		Mult mult
		Shift shift
		Mask mask
		OverflowPeriod overflow_period
	`},
	{QueryPortResponse{}, "mlx5_ib_uapi_query_port", `
		Flags flags
		VPort vport
		VPortVHCA vport_vhca_id
		OwnerVHCA esw_owner_vhca_id
		Reserved rsvd0
		ReceiveSteering vport_steering_icm_rx
		SendSteering vport_steering_icm_tx
		Register reg_c0.value
		RegisterMask reg_c0.mask
	`},
	{QueryDeviceResponse{}, "mlx5_ib_query_device_resp", `
		CompMask comp_mask
		ResponseLength response_length
		MaxTSO tso_caps.max_tso
		TSOTypes tso_caps.supported_qpts
		HashFields rss_caps.rx_hash_fields_mask
		HashFunction rss_caps.rx_hash_function
		Reserved0 rss_caps.reserved
		CompressionMax cqe_comp_caps.max_num
		CompressionFormats cqe_comp_caps.supported_format
		RateMin packet_pacing_caps.qp_rate_limit_min
		RateMax packet_pacing_caps.qp_rate_limit_max
		RateTypes packet_pacing_caps.supported_qpts
		RateFlags packet_pacing_caps.cap_flags
		Reserved1 packet_pacing_caps.reserved
		MultiPacketSend mlx5_ib_support_multi_pkt_send_wqes
		Flags flags
		ParsingOffloads sw_parsing_caps.sw_parsing_offloads
		ParsingTypes sw_parsing_caps.supported_qpts
		MinLogStride striding_rq_caps.min_single_stride_log_num_of_bytes
		MaxLogStride striding_rq_caps.max_single_stride_log_num_of_bytes
		MinLogStrides striding_rq_caps.min_single_wqe_log_num_of_strides
		MaxLogStrides striding_rq_caps.max_single_wqe_log_num_of_strides
		StridingTypes striding_rq_caps.supported_qpts
		Reserved2 striding_rq_caps.reserved
		TunnelOffloads tunnel_offloads_caps
		MaxLogStreams dci_streams_caps.max_log_num_concurent
		MaxLogErrStreams dci_streams_caps.max_log_num_errored
		Reserved3 reserved
	`},
	{AllocPDResponse{}, "mlx5_ib_alloc_pd_resp", `
		PDN pdn
	`},
	{CreateCQRequest{}, "mlx5_ib_create_cq", `
		BufAddr buf_addr
		RecordAddr db_addr
		EntrySize cqe_size
		Compress cqe_comp_en
		CompressionFormat cqe_comp_res_format
		Flags flags
		UARPage uar_page_index
		Reserved0 reserved0
		Reserved1 reserved1
	`},
	{ResizeCQRequest{}, "mlx5_ib_resize_cq", `
		BufAddr buf_addr
		EntrySize cqe_size
		Reserved0 reserved0
		Reserved1 reserved1
	`},
	{CreateCQResponse{}, "mlx5_ib_create_cq_resp", `
		CQN cqn
		Reserved reserved
	`},
	{CreateQPRequest{}, "mlx5_ib_create_qp", `
		BufAddr buf_addr
		RecordAddr db_addr
		SendBlocks sq_wqe_count
		Receives rq_wqe_count
		ReceiveShift rq_wqe_shift
		Flags flags
		UserIndex uidx
		Register bfreg_index
		SendBufAddr sq_buf_addr
		ECEOptions ece_options
		LogStreams dci_streams.log_num_concurent
		LogErrStreams dci_streams.log_num_errored
		Reserved reserved
	`},
	{CreateQPResponse{}, "mlx5_ib_create_qp_resp", `
		Register bfreg_index
		ECEOptions ece_options
		CompMask comp_mask
		TIRN tirn
		TISN tisn
		RQN rqn
		SQN sqn
		Reserved reserved1
		TIRAddr tir_icm_addr
	`},
	{CreateSRQRequest{}, "mlx5_ib_create_srq", `
		BufAddr buf_addr
		RecordAddr db_addr
		Flags flags
		Reserved0 reserved0
		UserIndex uidx
		Reserved1 reserved1
	`},
	{CreateSRQResponse{}, "mlx5_ib_create_srq_resp", `
		SRQN srqn
		Reserved reserved
	`},
	{CreateAHResponse{}, "mlx5_ib_create_ah_resp", `
		ResponseLength response_length
		DMAC dmac
		Reserved reserved
	`},
	{ModifyQPRequest{}, "mlx5_ib_modify_qp", `
		CompMask comp_mask
		MaxBurst burst_info.max_burst_sz
		TypicalPacket burst_info.typical_pkt_sz
		Reserved burst_info.reserved
		ECEOptions ece_options
	`},
	{ModifyQPResponse{}, "mlx5_ib_modify_qp_resp", `
		ResponseLength response_length
		DCTN dctn
		ECEOptions ece_options
		Reserved reserved
	`},
}

// abiConstants pairs the package's numbers with the headers' names.
var abiConstants = []struct {
	value uint64
	name  string
}{
	{DriverID, "RDMA_DRIVER_MLX5"},
	{ABIVersion, "MLX5_IB_UVERBS_ABI_VERSION"},
	{LibCap4KUAR, "MLX5_LIB_CAP_4K_UAR"},
	{LibCapDynUAR, "MLX5_LIB_CAP_DYN_UAR"},
	{ContextDevX, "MLX5_IB_ALLOC_UCTX_DEVX"},
	{ContextCoreClock, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET"},
	{ContextDumpFillKey, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY"},
	{ContextECE, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE"},
	{ContextSQDToRTS, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS"},
	{ContextRealTime, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS"},
	{ContextKeyUpdateTag, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG"},
	{DeviceCompress128, "MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP"},
	{DevicePad128, "MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD"},
	{DevicePacketCredits, "MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE"},
	{DeviceScatterDCT, "MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT"},
	{CQPad128, "MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD"},
	{CQUARPageIndex, "MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX"},
	{CQRealTime, "MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS"},
	{QPSignature, "MLX5_QP_FLAG_SIGNATURE"},
	{QPScatterCQE, "MLX5_QP_FLAG_SCATTER_CQE"},
	{QPTunnelOffloads, "MLX5_QP_FLAG_TUNNEL_OFFLOADS"},
	{QPRegisterIndex, "MLX5_QP_FLAG_BFREG_INDEX"},
	{QPTypeDCT, "MLX5_QP_FLAG_TYPE_DCT"},
	{QPTypeDCI, "MLX5_QP_FLAG_TYPE_DCI"},
	{QPSelfLoopUnicast, "MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC"},
	{QPSelfLoopMulticast, "MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC"},
	{QPAllowScatterCQE, "MLX5_QP_FLAG_ALLOW_SCATTER_CQE"},
	{QPPacketCredits, "MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE"},
	{QPUARPageIndex, "MLX5_QP_FLAG_UAR_PAGE_INDEX"},
	{QPDCIStream, "MLX5_QP_FLAG_DCI_STREAM"},
	{SRQSignature, "MLX5_SRQ_FLAG_SIGNATURE"},
	{ObjectUAR, "MLX5_IB_OBJECT_UAR"},
	{MethodUARAlloc, "MLX5_IB_METHOD_UAR_OBJ_ALLOC"},
	{MethodUARDestroy, "MLX5_IB_METHOD_UAR_OBJ_DESTROY"},
	{AttrUARHandle, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE"},
	{AttrUARType, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE"},
	{AttrUARMapOffset, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET"},
	{AttrUARMapLength, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH"},
	{AttrUARPageNumber, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID"},
	{AttrUARDestroyHandle, "MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE"},
	{UARTypeBlueFlame, "MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF"},
	{UARTypeNonCached, "MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC"},
	{MethodPDQuery, "MLX5_IB_METHOD_PD_QUERY"},
	{MethodQueryPort, "MLX5_IB_METHOD_QUERY_PORT"},
	{AttrQueryPDHandle, "MLX5_IB_ATTR_QUERY_PD_HANDLE"},
	{AttrQueryPDNumber, "MLX5_IB_ATTR_QUERY_PD_RESP_PDN"},
	{AttrQueryPortNumber, "MLX5_IB_ATTR_QUERY_PORT_PORT_NUM"},
	{AttrQueryPortResponse, "MLX5_IB_ATTR_QUERY_PORT"},
	{ClockInfoV1, "MLX5_IB_CLOCK_INFO_V1"},
	{AttrQueryContextResponse, "MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX"},
	{AttrCreateCQPage, "UVERBS_ATTR_UHW_OUT + 1"}, // the namespace behind UHW; newer headers name it
	{MapRegular, "MLX5_IB_MMAP_REGULAR_PAGE"},
	{MapWriteCombine, "MLX5_IB_MMAP_WC_PAGE"},
	{MapNonCached, "MLX5_IB_MMAP_NC_PAGE"},
	{MapCoreClock, "MLX5_IB_MMAP_CORE_CLOCK"},
	{MapAllocate, "MLX5_IB_MMAP_ALLOC_WC"},
	{MapClockInfo, "MLX5_IB_MMAP_CLOCK_INFO"},
	{MapDeviceMemory, "MLX5_IB_MMAP_DEVICE_MEM"},
	{MapObject, "MLX5_IB_MMAP_DEVICE_MEM + 1"}, // the first that the kernel's driver allocates
}

// TestABI compares sizes, offsets and numbers with those of the kernel's headers.
func TestABI(t *testing.T) {
	var want []coracle.Number
	add := func(v uint64, format string, args ...any) {
		want = append(want, coracle.Number{C: fmt.Sprintf(format, args...), Want: v})
	}
	for _, s := range abiStructs {
		typ := reflect.TypeOf(s.value)
		add(uint64(typ.Size()), "sizeof(struct %s)", s.name)
		fields := strings.Fields(s.fields)
		require.Len(t, fields, 2*(typ.NumField()-1), s.name) // all but HostLayout
		for i := 0; i < len(fields); i += 2 {
			f, ok := typ.FieldByName(fields[i])
			require.True(t, ok, fields[i])
			add(uint64(f.Offset), "offsetof(struct %s, %s)", s.name, fields[i+1])
			add(uint64(f.Type.Size()), "sizeof(((struct %s *)0)->%s)", s.name, fields[i+1])
		}
	}
	for _, c := range abiConstants {
		add(c.value, "%s", c.name)
	}
	coracle.Compare(t, []string{"rdma/mlx5-abi.h", "rdma/mlx5_user_ioctl_cmds.h", "rdma/mlx5_user_ioctl_verbs.h", "rdma/ib_user_ioctl_verbs.h"}, want)
}

func TestBytesAlias(t *testing.T) {
	var r CreateQPRequest
	b := Bytes(&r)
	require.Len(t, b, 56)
	for i := range b {
		b[i] = 0xff
	}
	require.Equal(t, uint64(math.MaxUint64), r.BufAddr)
	require.Equal(t, uint16(math.MaxUint16), r.Reserved)
	r.UserIndex = 0
	require.Equal(t, make([]byte, 4), b[32:36])
}

// TestContextResponse reads what a kernel's answer to GET_CONTEXT looks like.
func TestContextResponse(t *testing.T) {
	var r AllocContextResponse
	require.Equal(t, 72, copy(Bytes(&r), unhex("00000200 00020000 00000000 40000000"+
		"40040002 00800000 00800000 00800000 01000000 22000000 48000000 01030100"+
		"00000000 00000000 0c000000 01000000 00000000 00020000")))
	require.EqualValues(t, 512, r.BlueFlameSize)
	require.Zero(t, r.TotalRegisters, "pages are allocated by the library")
	require.EqualValues(t, 64, r.CacheLineSize)
	require.EqualValues(t, 1, r.CQEVersion)
	require.EqualValues(t, 72, r.ResponseLength)
	require.EqualValues(t, 1, r.UARsPerPage)
}
