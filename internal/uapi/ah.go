package uapi

import "structs"

// GlobalRoute is struct ib_uverbs_global_route.
type GlobalRoute struct {
	_            structs.HostLayout
	Dgid         [16]byte // wire order
	FlowLabel    uint32
	SgidIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Reserved     uint8
}

// AHAttr is struct ib_uverbs_ah_attr, the path that an address handle stands for.
type AHAttr struct {
	_           structs.HostLayout
	Grh         GlobalRoute
	Dlid        uint16
	Sl          uint8
	SrcPathBits uint8
	StaticRate  uint8
	IsGlobal    uint8
	PortNum     uint8
	Reserved    uint8
}

// CreateAH is struct ib_uverbs_create_ah.
type CreateAH struct {
	_          structs.HostLayout
	Response   uint64
	UserHandle uint64
	PDHandle   uint32
	Reserved   uint32
	Attr       AHAttr
}

// CreateAHResp is struct ib_uverbs_create_ah_resp.
type CreateAHResp struct {
	_        structs.HostLayout
	AHHandle uint32
}

// DestroyAH is struct ib_uverbs_destroy_ah.
type DestroyAH struct {
	_        structs.HostLayout
	AHHandle uint32
}
