package uapi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/coracle"
)

// cStructs pairs every structure of the package with the kernel's. A field's C
// name is its Go name in snake case unless renamed.
var cStructs = []struct {
	c      string
	v      any
	rename map[string]string
}{
	{"ib_uverbs_get_context", GetContext{}, nil},
	{"ib_uverbs_get_context_resp", GetContextResp{}, nil},
	{"ib_uverbs_query_device", QueryDevice{}, nil},
	{"ib_uverbs_query_device_resp", QueryDeviceResp{}, map[string]string{
		"MaxQPWR": "max_qp_wr", "MaxSRQWR": "max_srq_wr", "MaxSRQSGE": "max_srq_sge",
	}},
	{"ib_uverbs_ex_query_device", ExQueryDevice{}, nil},
	{"ib_uverbs_odp_caps", OdpCaps{}, map[string]string{
		"RC": "per_transport_caps.rc_odp_caps",
		"UC": "per_transport_caps.uc_odp_caps",
		"UD": "per_transport_caps.ud_odp_caps",
	}},
	{"ib_uverbs_rss_caps", RssCaps{}, nil},
	{"ib_uverbs_tm_caps", TmCaps{}, nil},
	{"ib_uverbs_cq_moderation_caps", CqModerationCaps{}, nil},
	{"ib_uverbs_ex_query_device_resp", ExQueryDeviceResp{}, nil},
	{"ib_uverbs_query_port", QueryPort{}, nil},
	{"ib_uverbs_query_port_resp", QueryPortResp{}, nil},
	{"ib_uverbs_query_port_resp_ex", QueryPortRespEx{}, nil},
	{"ib_uverbs_gid_entry", GIDEntry{}, nil},
	{"ib_uverbs_alloc_pd", AllocPD{}, nil},
	{"ib_uverbs_alloc_pd_resp", AllocPDResp{}, nil},
	{"ib_uverbs_dealloc_pd", DeallocPD{}, nil},
	{"ib_uverbs_reg_mr", RegMR{}, nil},
	{"ib_uverbs_reg_mr_resp", RegMRResp{}, nil},
	{"ib_uverbs_rereg_mr", ReregMR{}, nil},
	{"ib_uverbs_rereg_mr_resp", ReregMRResp{}, nil},
	{"ib_uverbs_dereg_mr", DeregMR{}, nil},
	{"ib_uverbs_create_comp_channel", CreateCompChannel{}, nil},
	{"ib_uverbs_create_comp_channel_resp", CreateCompChannelResp{}, nil},
	{"ib_uverbs_create_cq", CreateCQ{}, nil},
	{"ib_uverbs_create_cq_resp", CreateCQResp{}, nil},
	{"ib_uverbs_ex_create_cq", ExCreateCQ{}, nil},
	{"ib_uverbs_ex_create_cq_resp", ExCreateCQResp{}, nil},
	{"ib_uverbs_resize_cq", ResizeCQ{}, nil},
	{"ib_uverbs_resize_cq_resp", ResizeCQResp{}, nil},
	{"ib_uverbs_cq_moderation", CqModeration{}, nil},
	{"ib_uverbs_ex_modify_cq", ExModifyCQ{}, nil},
	{"ib_uverbs_req_notify_cq", ReqNotifyCQ{}, nil},
	{"ib_uverbs_destroy_cq", DestroyCQ{}, nil},
	{"ib_uverbs_destroy_cq_resp", DestroyCQResp{}, nil},
	{"ib_uverbs_qp_cap", QPCap{}, nil},
	{"ib_uverbs_create_qp", CreateQP{}, nil},
	{"ib_uverbs_create_qp_resp", CreateQPResp{}, nil},
	{"ib_uverbs_ex_create_qp", ExCreateQP{}, nil},
	{"ib_uverbs_ex_create_qp_resp", ExCreateQPResp{}, nil},
	{"ib_uverbs_qp_dest", QPDest{}, nil},
	{"ib_uverbs_modify_qp", ModifyQP{}, nil},
	{"ib_uverbs_ex_modify_qp", ExModifyQP{}, nil},
	{"ib_uverbs_ex_modify_qp_resp", ExModifyQPResp{}, nil},
	{"ib_uverbs_query_qp", QueryQP{}, nil},
	{"ib_uverbs_query_qp_resp", QueryQPResp{}, nil},
	{"ib_uverbs_destroy_qp", DestroyQP{}, nil},
	{"ib_uverbs_destroy_qp_resp", DestroyQPResp{}, nil},
	{"ib_uverbs_post_send", PostSend{}, nil},
	{"ib_uverbs_post_send_resp", PostSendResp{}, nil},
	{"ib_uverbs_create_srq", CreateSRQ{}, nil},
	{"ib_uverbs_create_srq_resp", CreateSRQResp{}, nil},
	{"ib_uverbs_modify_srq", ModifySRQ{}, nil},
	{"ib_uverbs_query_srq", QuerySRQ{}, nil},
	{"ib_uverbs_query_srq_resp", QuerySRQResp{}, nil},
	{"ib_uverbs_destroy_srq", DestroySRQ{}, nil},
	{"ib_uverbs_destroy_srq_resp", DestroySRQResp{}, nil},
	{"ib_uverbs_global_route", GlobalRoute{}, nil},
	{"ib_uverbs_ah_attr", AHAttr{}, nil},
	{"ib_uverbs_create_ah", CreateAH{}, nil},
	{"ib_uverbs_create_ah_resp", CreateAHResp{}, nil},
	{"ib_uverbs_destroy_ah", DestroyAH{}, nil},
	{"ib_uverbs_async_event_desc", AsyncEvent{}, nil},
	{"ib_uverbs_comp_event_desc", CompEvent{}, nil},
	{"ib_uverbs_wc", WorkCompletion{}, map[string]string{"WRID": "wr_id"}},
}

// cConstants pairs constants with C expressions over the kernel's headers.
var cConstants = []coracle.Number{
	{"RDMA_VERBS_IOCTL", RDMAVerbsIoctl},
	{"sizeof(struct ib_uverbs_ioctl_hdr)", HeaderSize},
	{"offsetof(struct ib_uverbs_ioctl_hdr, length)", hdrLength},
	{"offsetof(struct ib_uverbs_ioctl_hdr, object_id)", hdrObject},
	{"offsetof(struct ib_uverbs_ioctl_hdr, method_id)", hdrMethod},
	{"offsetof(struct ib_uverbs_ioctl_hdr, num_attrs)", hdrNumAttrs},
	{"offsetof(struct ib_uverbs_ioctl_hdr, reserved1)", hdrReserved1},
	{"offsetof(struct ib_uverbs_ioctl_hdr, driver_id)", hdrDriver},
	{"offsetof(struct ib_uverbs_ioctl_hdr, reserved2)", hdrReserved2},
	{"sizeof(struct ib_uverbs_attr)", AttrSize},
	{"offsetof(struct ib_uverbs_attr, attr_id)", attrID},
	{"offsetof(struct ib_uverbs_attr, len)", attrLen},
	{"offsetof(struct ib_uverbs_attr, flags)", attrFlags},
	{"offsetof(struct ib_uverbs_attr, attr_data)", attrReserved},
	{"offsetof(struct ib_uverbs_attr, data)", attrData},
	{"UVERBS_ATTR_F_MANDATORY", FlagMandatory},
	{"UVERBS_ATTR_F_VALID_OUTPUT", FlagValidOutput},
	{"IB_USER_VERBS_ABI_VERSION", ABIVersion},
	{"RDMA_DRIVER_UNKNOWN", DriverUnknown},
	{"RDMA_DRIVER_MLX5", DriverMLX5},
	{"RDMA_DRIVER_MLX4", DriverMLX4},
	{"RDMA_DRIVER_RXE", DriverRXE},
	{"RDMA_DRIVER_SIW", DriverSIW},

	{"UVERBS_OBJECT_DEVICE", ObjectDevice},
	{"UVERBS_OBJECT_PD", ObjectPD},
	{"UVERBS_OBJECT_COMP_CHANNEL", ObjectCompChannel},
	{"UVERBS_OBJECT_CQ", ObjectCQ},
	{"UVERBS_OBJECT_QP", ObjectQP},
	{"UVERBS_OBJECT_SRQ", ObjectSRQ},
	{"UVERBS_OBJECT_AH", ObjectAH},
	{"UVERBS_OBJECT_MR", ObjectMR},
	{"UVERBS_OBJECT_DM", ObjectDM},
	{"UVERBS_OBJECT_ASYNC_EVENT", ObjectAsyncEvent},
	{"UVERBS_UDATA_DRIVER_DATA_FLAG", DriverNamespace},
	{"UVERBS_ATTR_UHW_IN", AttrUHWIn},
	{"UVERBS_ATTR_UHW_OUT", AttrUHWOut},

	{"UVERBS_METHOD_INVOKE_WRITE", MethodInvokeWrite},
	{"UVERBS_METHOD_QUERY_PORT", MethodQueryPort},
	{"UVERBS_METHOD_GET_CONTEXT", MethodGetContext},
	{"UVERBS_METHOD_QUERY_CONTEXT", MethodQueryContext},
	{"UVERBS_METHOD_QUERY_GID_TABLE", MethodQueryGIDTable},
	{"UVERBS_METHOD_QUERY_GID_ENTRY", MethodQueryGIDEntry},
	{"UVERBS_METHOD_PD_DESTROY", MethodPDDestroy},
	{"UVERBS_METHOD_AH_DESTROY", MethodAHDestroy},
	{"UVERBS_METHOD_CQ_CREATE", MethodCQCreate},
	{"UVERBS_METHOD_CQ_DESTROY", MethodCQDestroy},
	{"UVERBS_METHOD_QP_CREATE", MethodQPCreate},
	{"UVERBS_METHOD_QP_DESTROY", MethodQPDestroy},
	{"UVERBS_METHOD_SRQ_CREATE", MethodSRQCreate},
	{"UVERBS_METHOD_SRQ_DESTROY", MethodSRQDestroy},
	{"UVERBS_METHOD_MR_DESTROY", MethodMRDestroy},
	{"UVERBS_METHOD_QUERY_MR", MethodQueryMR},
	{"UVERBS_METHOD_REG_DMABUF_MR", MethodRegDmabufMR},
	{"UVERBS_METHOD_ASYNC_EVENT_ALLOC", MethodAsyncEventAlloc},

	{"UVERBS_ATTR_CORE_IN", AttrCoreIn},
	{"UVERBS_ATTR_CORE_OUT", AttrCoreOut},
	{"UVERBS_ATTR_WRITE_CMD", AttrWriteCmd},
	{"UVERBS_ATTR_QUERY_PORT_PORT_NUM", AttrQueryPortPort},
	{"UVERBS_ATTR_QUERY_PORT_RESP", AttrQueryPortResp},
	{"UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS", AttrContextNumCompVectors},
	{"UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT", AttrContextCoreSupport},
	{"UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS", AttrContextNumCompVectors},
	{"UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT", AttrContextCoreSupport},
	{"IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS", CoreSupportOptionalMRAccess},
	{"UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE", AttrGIDTableEntrySize},
	{"UVERBS_ATTR_QUERY_GID_TABLE_FLAGS", AttrGIDTableFlags},
	{"UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES", AttrGIDTableEntries},
	{"UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES", AttrGIDTableNumEntries},
	{"UVERBS_ATTR_QUERY_GID_ENTRY_PORT", AttrGIDEntryPort},
	{"UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX", AttrGIDEntryIndex},
	{"UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS", AttrGIDEntryFlags},
	{"UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY", AttrGIDEntryResp},
	{"UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE", AttrAsyncEventFD},

	{"UVERBS_ATTR_CREATE_CQ_HANDLE", AttrCreateCQHandle},
	{"UVERBS_ATTR_CREATE_CQ_CQE", AttrCreateCQCQE},
	{"UVERBS_ATTR_CREATE_CQ_USER_HANDLE", AttrCreateCQUserHandle},
	{"UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL", AttrCreateCQCompChannel},
	{"UVERBS_ATTR_CREATE_CQ_COMP_VECTOR", AttrCreateCQCompVector},
	{"UVERBS_ATTR_CREATE_CQ_FLAGS", AttrCreateCQFlags},
	{"UVERBS_ATTR_CREATE_CQ_RESP_CQE", AttrCreateCQRespCQE},
	{"UVERBS_ATTR_CREATE_CQ_EVENT_FD", AttrCreateCQEventFD},
	{"UVERBS_ATTR_DESTROY_CQ_HANDLE", AttrDestroyCQHandle},
	{"UVERBS_ATTR_DESTROY_CQ_RESP", AttrDestroyCQResp},

	{"UVERBS_ATTR_CREATE_QP_HANDLE", AttrCreateQPHandle},
	{"UVERBS_ATTR_CREATE_QP_XRCD_HANDLE", AttrCreateQPXRCD},
	{"UVERBS_ATTR_CREATE_QP_PD_HANDLE", AttrCreateQPPD},
	{"UVERBS_ATTR_CREATE_QP_SRQ_HANDLE", AttrCreateQPSRQ},
	{"UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE", AttrCreateQPSendCQ},
	{"UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE", AttrCreateQPRecvCQ},
	{"UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE", AttrCreateQPIndTable},
	{"UVERBS_ATTR_CREATE_QP_USER_HANDLE", AttrCreateQPUserHandle},
	{"UVERBS_ATTR_CREATE_QP_CAP", AttrCreateQPCap},
	{"UVERBS_ATTR_CREATE_QP_TYPE", AttrCreateQPType},
	{"UVERBS_ATTR_CREATE_QP_FLAGS", AttrCreateQPFlags},
	{"UVERBS_ATTR_CREATE_QP_SOURCE_QPN", AttrCreateQPSourceQPN},
	{"UVERBS_ATTR_CREATE_QP_EVENT_FD", AttrCreateQPEventFD},
	{"UVERBS_ATTR_CREATE_QP_RESP_CAP", AttrCreateQPRespCap},
	{"UVERBS_ATTR_CREATE_QP_RESP_QP_NUM", AttrCreateQPRespQPN},
	{"UVERBS_ATTR_DESTROY_QP_HANDLE", AttrDestroyQPHandle},
	{"UVERBS_ATTR_DESTROY_QP_RESP", AttrDestroyQPResp},

	{"UVERBS_ATTR_CREATE_SRQ_HANDLE", AttrCreateSRQHandle},
	{"UVERBS_ATTR_CREATE_SRQ_PD_HANDLE", AttrCreateSRQPD},
	{"UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE", AttrCreateSRQXRCD},
	{"UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE", AttrCreateSRQCQ},
	{"UVERBS_ATTR_CREATE_SRQ_USER_HANDLE", AttrCreateSRQUserHandle},
	{"UVERBS_ATTR_CREATE_SRQ_MAX_WR", AttrCreateSRQMaxWR},
	{"UVERBS_ATTR_CREATE_SRQ_MAX_SGE", AttrCreateSRQMaxSGE},
	{"UVERBS_ATTR_CREATE_SRQ_LIMIT", AttrCreateSRQLimit},
	{"UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS", AttrCreateSRQNumTags},
	{"UVERBS_ATTR_CREATE_SRQ_TYPE", AttrCreateSRQType},
	{"UVERBS_ATTR_CREATE_SRQ_EVENT_FD", AttrCreateSRQEventFD},
	{"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR", AttrCreateSRQRespMaxWR},
	{"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE", AttrCreateSRQRespMaxSGE},
	{"UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM", AttrCreateSRQRespNum},
	{"UVERBS_ATTR_DESTROY_SRQ_HANDLE", AttrDestroySRQHandle},
	{"UVERBS_ATTR_DESTROY_SRQ_RESP", AttrDestroySRQResp},
	{"UVERBS_ATTR_DESTROY_PD_HANDLE", AttrDestroyPDHandle},
	{"UVERBS_ATTR_DESTROY_AH_HANDLE", AttrDestroyAHHandle},

	{"UVERBS_ATTR_DESTROY_MR_HANDLE", AttrDestroyMRHandle},
	{"UVERBS_ATTR_QUERY_MR_HANDLE", AttrQueryMRHandle},
	{"UVERBS_ATTR_QUERY_MR_RESP_LKEY", AttrQueryMRLKey},
	{"UVERBS_ATTR_QUERY_MR_RESP_RKEY", AttrQueryMRRKey},
	{"UVERBS_ATTR_QUERY_MR_RESP_LENGTH", AttrQueryMRLength},
	{"UVERBS_ATTR_QUERY_MR_RESP_IOVA", AttrQueryMRIOVA},
	{"UVERBS_ATTR_REG_DMABUF_MR_HANDLE", AttrRegDmabufHandle},
	{"UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE", AttrRegDmabufPD},
	{"UVERBS_ATTR_REG_DMABUF_MR_OFFSET", AttrRegDmabufOffset},
	{"UVERBS_ATTR_REG_DMABUF_MR_LENGTH", AttrRegDmabufLength},
	{"UVERBS_ATTR_REG_DMABUF_MR_IOVA", AttrRegDmabufIOVA},
	{"UVERBS_ATTR_REG_DMABUF_MR_FD", AttrRegDmabufFD},
	{"UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS", AttrRegDmabufAccess},
	{"UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY", AttrRegDmabufLKey},
	{"UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY", AttrRegDmabufRKey},

	{"IB_USER_VERBS_CMD_GET_CONTEXT", CmdGetContext},
	{"IB_USER_VERBS_CMD_QUERY_DEVICE", CmdQueryDevice},
	{"IB_USER_VERBS_CMD_QUERY_PORT", CmdQueryPort},
	{"IB_USER_VERBS_CMD_ALLOC_PD", CmdAllocPD},
	{"IB_USER_VERBS_CMD_DEALLOC_PD", CmdDeallocPD},
	{"IB_USER_VERBS_CMD_CREATE_AH", CmdCreateAH},
	{"IB_USER_VERBS_CMD_DESTROY_AH", CmdDestroyAH},
	{"IB_USER_VERBS_CMD_REG_MR", CmdRegMR},
	{"IB_USER_VERBS_CMD_REREG_MR", CmdReregMR},
	{"IB_USER_VERBS_CMD_DEREG_MR", CmdDeregMR},
	{"IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL", CmdCreateCompChannel},
	{"IB_USER_VERBS_CMD_CREATE_CQ", CmdCreateCQ},
	{"IB_USER_VERBS_CMD_RESIZE_CQ", CmdResizeCQ},
	{"IB_USER_VERBS_CMD_DESTROY_CQ", CmdDestroyCQ},
	{"IB_USER_VERBS_CMD_POLL_CQ", CmdPollCQ},
	{"IB_USER_VERBS_CMD_REQ_NOTIFY_CQ", CmdReqNotifyCQ},
	{"IB_USER_VERBS_CMD_CREATE_QP", CmdCreateQP},
	{"IB_USER_VERBS_CMD_QUERY_QP", CmdQueryQP},
	{"IB_USER_VERBS_CMD_MODIFY_QP", CmdModifyQP},
	{"IB_USER_VERBS_CMD_DESTROY_QP", CmdDestroyQP},
	{"IB_USER_VERBS_CMD_POST_SEND", CmdPostSend},
	{"IB_USER_VERBS_CMD_CREATE_SRQ", CmdCreateSRQ},
	{"IB_USER_VERBS_CMD_MODIFY_SRQ", CmdModifySRQ},
	{"IB_USER_VERBS_CMD_QUERY_SRQ", CmdQuerySRQ},
	{"IB_USER_VERBS_CMD_DESTROY_SRQ", CmdDestroySRQ},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED", CmdExtended},
	{"IB_USER_VERBS_CMD_COMMAND_MASK", CmdMask},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE", CmdExQueryDevice},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ", CmdExCreateCQ},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP", CmdExCreateQP},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP", CmdExModifyQP},
	{"IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_CQ", CmdExModifyCQ},

	{"IB_UVERBS_ACCESS_LOCAL_WRITE", AccessLocalWrite},
	{"IB_UVERBS_ACCESS_REMOTE_WRITE", AccessRemoteWrite},
	{"IB_UVERBS_ACCESS_REMOTE_READ", AccessRemoteRead},
	{"IB_UVERBS_ACCESS_REMOTE_ATOMIC", AccessRemoteAtomic},
	{"IB_UVERBS_ACCESS_MW_BIND", AccessMWBind},
	{"IB_UVERBS_ACCESS_ZERO_BASED", AccessZeroBased},
	{"IB_UVERBS_ACCESS_ON_DEMAND", AccessOnDemand},
	{"IB_UVERBS_ACCESS_HUGETLB", AccessHugeTLB},
	{"IB_UVERBS_ACCESS_RELAXED_ORDERING", AccessRelaxedOrdering},
	{"IB_UVERBS_ACCESS_OPTIONAL_RANGE", AccessOptional},
	{"IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION", CQTimestampCompletion},
	{"IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN", CQIgnoreOverrun},
	{"IB_UVERBS_SRQT_BASIC", SRQTypeBasic},
	{"IB_UVERBS_QPT_RC", QPTypeRC},
	{"IB_UVERBS_QPT_UC", QPTypeUC},
	{"IB_UVERBS_QPT_UD", QPTypeUD},
	{"IB_UVERBS_QPT_RAW_PACKET", QPTypeRawPacket},
	{"IB_UVERBS_QPT_XRC_INI", QPTypeXRCInitiator},
	{"IB_UVERBS_QPT_XRC_TGT", QPTypeXRCTarget},
	{"IB_UVERBS_QPT_DRIVER", QPTypeDriver},
	{"IB_UVERBS_QPF_GRH_REQUIRED", PortGRHRequired},
	{"IB_UVERBS_PCF_IP_BASED_GIDS", PortIPBasedGIDs},
	{"IB_UVERBS_GID_TYPE_IB", GIDTypeIB},
	{"IB_UVERBS_GID_TYPE_ROCE_V1", GIDTypeRoCEv1},
	{"IB_UVERBS_GID_TYPE_ROCE_V2", GIDTypeRoCEv2},
}

var kernelHeaders = []string{"rdma/rdma_user_ioctl_cmds.h", "rdma/ib_user_ioctl_cmds.h", "rdma/ib_user_ioctl_verbs.h", "rdma/ib_user_verbs.h"}

// ibvConstants are in the kernel's internal headers; libibverbs has the same
// numbers in a public one.
var ibvConstants = []coracle.Number{
	{"IBV_QPS_RESET", QPReset}, {"IBV_QPS_INIT", QPInit}, {"IBV_QPS_RTR", QPRTR}, {"IBV_QPS_RTS", QPRTS},
	{"IBV_QPS_SQD", QPSQD}, {"IBV_QPS_SQE", QPSQE}, {"IBV_QPS_ERR", QPErr},
	{"IBV_QP_STATE", QPAttrState}, {"IBV_QP_CUR_STATE", QPAttrCurState},
	{"IBV_QP_EN_SQD_ASYNC_NOTIFY", QPAttrEnSQDNotify}, {"IBV_QP_ACCESS_FLAGS", QPAttrAccessFlags},
	{"IBV_QP_PKEY_INDEX", QPAttrPkeyIndex}, {"IBV_QP_PORT", QPAttrPort}, {"IBV_QP_QKEY", QPAttrQkey},
	{"IBV_QP_AV", QPAttrAV}, {"IBV_QP_PATH_MTU", QPAttrPathMTU}, {"IBV_QP_TIMEOUT", QPAttrTimeout},
	{"IBV_QP_RETRY_CNT", QPAttrRetryCnt}, {"IBV_QP_RNR_RETRY", QPAttrRnrRetry}, {"IBV_QP_RQ_PSN", QPAttrRqPsn},
	{"IBV_QP_MAX_QP_RD_ATOMIC", QPAttrMaxRdAtomic}, {"IBV_QP_ALT_PATH", QPAttrAltPath},
	{"IBV_QP_MIN_RNR_TIMER", QPAttrMinRnrTimer}, {"IBV_QP_SQ_PSN", QPAttrSqPsn},
	{"IBV_QP_MAX_DEST_RD_ATOMIC", QPAttrMaxDestRdAtomic}, {"IBV_QP_PATH_MIG_STATE", QPAttrPathMigState},
	{"IBV_QP_CAP", QPAttrCap}, {"IBV_QP_DEST_QPN", QPAttrDestQpn}, {"IBV_QP_RATE_LIMIT", QPAttrRateLimit},
	{"IBV_SRQ_MAX_WR", SRQAttrMaxWR}, {"IBV_SRQ_LIMIT", SRQAttrLimit},
	{"IBV_LINK_LAYER_INFINIBAND", LinkLayerInfiniBand}, {"IBV_LINK_LAYER_ETHERNET", LinkLayerEthernet},
	{"IBV_ODP_SUPPORT", OdpSupport}, {"IBV_ODP_SUPPORT_IMPLICIT", OdpSupportImplicit},
	{"IBV_ODP_SUPPORT_SEND", OdpSend}, {"IBV_ODP_SUPPORT_RECV", OdpRecv}, {"IBV_ODP_SUPPORT_WRITE", OdpWrite},
	{"IBV_ODP_SUPPORT_READ", OdpRead}, {"IBV_ODP_SUPPORT_ATOMIC", OdpAtomic}, {"IBV_ODP_SUPPORT_SRQ_RECV", OdpSRQ},
	{"IBV_EVENT_CQ_ERR", EventCQErr}, {"IBV_EVENT_QP_FATAL", EventQPFatal}, {"IBV_EVENT_QP_REQ_ERR", EventQPReqErr},
	{"IBV_EVENT_QP_ACCESS_ERR", EventQPAccessErr}, {"IBV_EVENT_COMM_EST", EventCommEst},
	{"IBV_EVENT_SQ_DRAINED", EventSQDrained}, {"IBV_EVENT_PATH_MIG", EventPathMig},
	{"IBV_EVENT_PATH_MIG_ERR", EventPathMigErr}, {"IBV_EVENT_DEVICE_FATAL", EventDeviceFatal},
	{"IBV_EVENT_PORT_ACTIVE", EventPortActive}, {"IBV_EVENT_PORT_ERR", EventPortErr},
	{"IBV_EVENT_LID_CHANGE", EventLIDChange}, {"IBV_EVENT_PKEY_CHANGE", EventPKeyChange},
	{"IBV_EVENT_SM_CHANGE", EventSMChange}, {"IBV_EVENT_SRQ_ERR", EventSRQErr},
	{"IBV_EVENT_SRQ_LIMIT_REACHED", EventSRQLimitReached}, {"IBV_EVENT_QP_LAST_WQE_REACHED", EventQPLastWQEReached},
	{"IBV_EVENT_CLIENT_REREGISTER", EventClientReregister}, {"IBV_EVENT_GID_CHANGE", EventGIDChange},
	{"IBV_EVENT_WQ_FATAL", EventWQFatal},
}

func TestLayoutsAgainstKernelHeaders(t *testing.T) {
	var numbers []coracle.Number
	add := func(want uint64, format string, args ...any) {
		numbers = append(numbers, coracle.Number{C: fmt.Sprintf(format, args...), Want: want})
	}
	for _, s := range cStructs {
		typ := reflect.TypeOf(s.v)
		add(uint64(typ.Size()), "sizeof(struct %s)", s.c)
		for f := range typ.Fields() {
			if f.Name == "_" {
				continue
			}
			name := s.rename[f.Name]
			if name == "" {
				name = snake(f.Name)
			}
			add(uint64(f.Offset), "offsetof(struct %s, %s)", s.c, name)
			add(uint64(f.Type.Size()), "sizeof(((struct %s *)0)->%s)", s.c, name)
		}
	}
	coracle.Compare(t, kernelHeaders, append(numbers, cConstants...))
}

func TestNumbersAgainstLibibverbs(t *testing.T) {
	coracle.Compare(t, []string{"infiniband/verbs.h"}, ibvConstants)
}

func TestSnake(t *testing.T) {
	for in, out := range map[string]string{
		"QPHandle": "qp_handle", "MaxSendWR": "max_send_wr", "IsSRQ": "is_srq", "Response": "response",
		"MaxQPRdAtom": "max_qp_rd_atom", "SRQHandle": "srq_handle", "PortCapFlags2": "port_cap_flags2", "MaxRawIpv6QP": "max_raw_ipv6_qp",
	} {
		require.Equal(t, out, snake(in))
	}
}

// snake turns a Go name into a C one: MaxSendWR is max_send_wr.
func snake(s string) string {
	var out []string
	for s != "" {
		n := 1
		for n < len(s) && isUpper(s[n]) {
			n++
		}
		if n > 1 && n < len(s) && !isUpper(s[n]) {
			n-- // the last capital begins the next word
		} else if n == 1 {
			for n < len(s) && !isUpper(s[n]) {
				n++
			}
		}
		out, s = append(out, strings.ToLower(s[:n])), s[n:]
	}
	return strings.Join(out, "_")
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
