package uapi

import "structs"

// AllocPD is struct ib_uverbs_alloc_pd.
type AllocPD struct {
	_        structs.HostLayout
	Response uint64
}

// AllocPDResp is struct ib_uverbs_alloc_pd_resp.
type AllocPDResp struct {
	_        structs.HostLayout
	PDHandle uint32
}

// DeallocPD is struct ib_uverbs_dealloc_pd.
type DeallocPD struct {
	_        structs.HostLayout
	PDHandle uint32
}

// RegMR is struct ib_uverbs_reg_mr. Start and HcaVa must agree in the bits
// below the page size.
type RegMR struct {
	_           structs.HostLayout
	Response    uint64
	Start       uint64
	Length      uint64
	HcaVa       uint64
	PDHandle    uint32
	AccessFlags uint32
}

// RegMRResp is struct ib_uverbs_reg_mr_resp.
type RegMRResp struct {
	_        structs.HostLayout
	MRHandle uint32
	Lkey     uint32
	Rkey     uint32
}

// Bits of ReregMR.Flags: what of the region changes (ib_verbs.h, enum
// ib_mr_rereg_flags).
const (
	ReregTranslation = 1 << 0 // Start, Length and HcaVa
	ReregPD          = 1 << 1
	ReregAccess      = 1 << 2
)

// ReregMR is struct ib_uverbs_rereg_mr.
type ReregMR struct {
	_           structs.HostLayout
	Response    uint64
	MRHandle    uint32
	Flags       uint32
	Start       uint64
	Length      uint64
	HcaVa       uint64
	PDHandle    uint32
	AccessFlags uint32
}

// ReregMRResp is struct ib_uverbs_rereg_mr_resp.
type ReregMRResp struct {
	_    structs.HostLayout
	Lkey uint32
	Rkey uint32
}

// DeregMR is struct ib_uverbs_dereg_mr.
type DeregMR struct {
	_        structs.HostLayout
	MRHandle uint32
}

// Access flags of memory regions and queue pairs (ib_user_ioctl_verbs.h, enum
// ib_uverbs_access_flags).
const (
	AccessLocalWrite      = 1 << 0
	AccessRemoteWrite     = 1 << 1
	AccessRemoteRead      = 1 << 2
	AccessRemoteAtomic    = 1 << 3
	AccessMWBind          = 1 << 4
	AccessZeroBased       = 1 << 5
	AccessOnDemand        = 1 << 6
	AccessHugeTLB         = 1 << 7
	AccessRelaxedOrdering = 1 << 20

	// AccessOptional are the bits a kernel may ignore if it reports
	// CoreSupportOptionalMRAccess, and refuses if it does not.
	AccessOptional = 0x3ff00000
)
