package uapi

import "structs"

// CreateSRQ is struct ib_uverbs_create_srq.
type CreateSRQ struct {
	_          structs.HostLayout
	Response   uint64
	UserHandle uint64
	PDHandle   uint32
	MaxWR      uint32
	MaxSGE     uint32
	SRQLimit   uint32
}

// SRQTypeBasic is the type of an ordinary shared receive queue in the native method
// (enum ib_uverbs_srq_type, IB_UVERBS_SRQT_BASIC).
const SRQTypeBasic = 0

// CreateSRQResp is struct ib_uverbs_create_srq_resp.
type CreateSRQResp struct {
	_         structs.HostLayout
	SRQHandle uint32
	MaxWR     uint32
	MaxSGE    uint32
	Srqn      uint32
}

// ModifySRQ is struct ib_uverbs_modify_srq.
type ModifySRQ struct {
	_         structs.HostLayout
	SRQHandle uint32
	AttrMask  uint32
	MaxWR     uint32
	SRQLimit  uint32
}

// Bits of ModifySRQ.AttrMask (ib_verbs.h, enum ib_srq_attr_mask).
const (
	SRQAttrMaxWR = 1 << 0
	SRQAttrLimit = 1 << 1
)

// QuerySRQ is struct ib_uverbs_query_srq.
type QuerySRQ struct {
	_         structs.HostLayout
	Response  uint64
	SRQHandle uint32
	Reserved  uint32
}

// QuerySRQResp is struct ib_uverbs_query_srq_resp.
type QuerySRQResp struct {
	_        structs.HostLayout
	MaxWR    uint32
	MaxSGE   uint32
	SRQLimit uint32
	Reserved uint32
}

// DestroySRQ is struct ib_uverbs_destroy_srq.
type DestroySRQ struct {
	_         structs.HostLayout
	Response  uint64
	SRQHandle uint32
	Reserved  uint32
}

// DestroySRQResp is struct ib_uverbs_destroy_srq_resp.
type DestroySRQResp struct {
	_              structs.HostLayout
	EventsReported uint32
}
