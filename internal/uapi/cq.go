package uapi

import "structs"

// CreateCompChannel is struct ib_uverbs_create_comp_channel.
type CreateCompChannel struct {
	_        structs.HostLayout
	Response uint64
}

// CreateCompChannelResp is struct ib_uverbs_create_comp_channel_resp.
type CreateCompChannelResp struct {
	_  structs.HostLayout
	FD uint32
}

// CreateCQ is struct ib_uverbs_create_cq. CompChannel is a descriptor, or -1
// for none.
type CreateCQ struct {
	_           structs.HostLayout
	Response    uint64
	UserHandle  uint64
	Cqe         uint32
	CompVector  uint32
	CompChannel int32
	Reserved    uint32
}

// CreateCQResp is struct ib_uverbs_create_cq_resp.
type CreateCQResp struct {
	_        structs.HostLayout
	CQHandle uint32
	Cqe      uint32
}

// ExCreateCQ is struct ib_uverbs_ex_create_cq.
type ExCreateCQ struct {
	_           structs.HostLayout
	UserHandle  uint64
	Cqe         uint32
	CompVector  uint32
	CompChannel int32
	CompMask    uint32
	Flags       uint32
	Reserved    uint32
}

// Flags of ExCreateCQ and of the native method (enum
// ib_uverbs_ex_create_cq_flags).
const (
	CQTimestampCompletion = 1 << 0
	CQIgnoreOverrun       = 1 << 1
)

// ExCreateCQResp is struct ib_uverbs_ex_create_cq_resp.
type ExCreateCQResp struct {
	_              structs.HostLayout
	Base           CreateCQResp
	CompMask       uint32
	ResponseLength uint32
}

// ResizeCQ is struct ib_uverbs_resize_cq.
type ResizeCQ struct {
	_        structs.HostLayout
	Response uint64
	CQHandle uint32
	Cqe      uint32
}

// ResizeCQResp is struct ib_uverbs_resize_cq_resp.
type ResizeCQResp struct {
	_        structs.HostLayout
	Cqe      uint32
	Reserved uint32
}

// CqModeration is struct ib_uverbs_cq_moderation.
type CqModeration struct {
	_        structs.HostLayout
	CqCount  uint16
	CqPeriod uint16
}

// CQModerate is the one bit of ExModifyCQ.AttrMask (ib_verbs.h, IB_CQ_MODERATE).
const CQModerate = 1 << 0

// ExModifyCQ is struct ib_uverbs_ex_modify_cq.
type ExModifyCQ struct {
	_        structs.HostLayout
	CQHandle uint32
	AttrMask uint32
	Attr     CqModeration
	Reserved uint32
}

// ReqNotifyCQ is struct ib_uverbs_req_notify_cq.
type ReqNotifyCQ struct {
	_             structs.HostLayout
	CQHandle      uint32
	SolicitedOnly uint32
}

// DestroyCQ is struct ib_uverbs_destroy_cq.
type DestroyCQ struct {
	_        structs.HostLayout
	Response uint64
	CQHandle uint32
	Reserved uint32
}

// DestroyCQResp is struct ib_uverbs_destroy_cq_resp.
type DestroyCQResp struct {
	_                   structs.HostLayout
	CompEventsReported  uint32
	AsyncEventsReported uint32
}
