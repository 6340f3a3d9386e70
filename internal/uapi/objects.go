package uapi

// Objects (ib_user_ioctl_cmds.h, enum uverbs_default_objects).
const (
	ObjectDevice      = 0
	ObjectPD          = 1
	ObjectCompChannel = 2
	ObjectCQ          = 3
	ObjectQP          = 4
	ObjectSRQ         = 5
	ObjectAH          = 6
	ObjectMR          = 7
	ObjectDM          = 14
	ObjectAsyncEvent  = 16
)

// DriverNamespace is the first object, method and attribute id that belongs to
// the driver (UVERBS_UDATA_DRIVER_DATA_FLAG).
const DriverNamespace = 0x1000

// The driver-private request and response that many methods carry.
const (
	AttrUHWIn  = 0x1000 // UVERBS_ATTR_UHW_IN
	AttrUHWOut = 0x1001 // UVERBS_ATTR_UHW_OUT
)

// Methods of the device object (enum uverbs_methods_device).
const (
	MethodInvokeWrite   = 0
	MethodQueryPort     = 2
	MethodGetContext    = 3 // Linux 5.6
	MethodQueryContext  = 4
	MethodQueryGIDTable = 5 // Linux 5.10
	MethodQueryGIDEntry = 6 // Linux 5.10
)

// Methods of the other objects (enum uverbs_methods_cq and its neighbours).
const (
	MethodPDDestroy       = 0
	MethodAHDestroy       = 0
	MethodCQCreate        = 0
	MethodCQDestroy       = 1
	MethodQPCreate        = 0
	MethodQPDestroy       = 1
	MethodSRQCreate       = 0
	MethodSRQDestroy      = 1
	MethodMRDestroy       = 1
	MethodQueryMR         = 3
	MethodRegDmabufMR     = 4
	MethodAsyncEventAlloc = 0 // Linux 5.6
)

// INVOKE_WRITE (enum uverbs_attrs_invoke_write_cmd_attr_ids).
const (
	AttrCoreIn   = 0
	AttrCoreOut  = 1
	AttrWriteCmd = 2
)

// QUERY_PORT.
const (
	AttrQueryPortPort = 0
	AttrQueryPortResp = 1
)

// GET_CONTEXT and QUERY_CONTEXT use the same two.
const (
	AttrContextNumCompVectors = 0
	AttrContextCoreSupport    = 1
)

// CoreSupportOptionalMRAccess in the core-support output of GET_CONTEXT says
// that the kernel ignores optional access bits it does not know.
const CoreSupportOptionalMRAccess = 1 << 0

// QUERY_GID_TABLE.
const (
	AttrGIDTableEntrySize  = 0
	AttrGIDTableFlags      = 1
	AttrGIDTableEntries    = 2
	AttrGIDTableNumEntries = 3
)

// QUERY_GID_ENTRY.
const (
	AttrGIDEntryPort  = 0
	AttrGIDEntryIndex = 1
	AttrGIDEntryFlags = 2
	AttrGIDEntryResp  = 3
)

// ASYNC_EVENT alloc.
const AttrAsyncEventFD = 0

// CQ create and destroy.
const (
	AttrCreateCQHandle      = 0
	AttrCreateCQCQE         = 1
	AttrCreateCQUserHandle  = 2
	AttrCreateCQCompChannel = 3
	AttrCreateCQCompVector  = 4
	AttrCreateCQFlags       = 5
	AttrCreateCQRespCQE     = 6
	AttrCreateCQEventFD     = 7

	AttrDestroyCQHandle = 0
	AttrDestroyCQResp   = 1
)

// QP create and destroy.
const (
	AttrCreateQPHandle     = 0
	AttrCreateQPXRCD       = 1
	AttrCreateQPPD         = 2
	AttrCreateQPSRQ        = 3
	AttrCreateQPSendCQ     = 4
	AttrCreateQPRecvCQ     = 5
	AttrCreateQPIndTable   = 6
	AttrCreateQPUserHandle = 7
	AttrCreateQPCap        = 8
	AttrCreateQPType       = 9
	AttrCreateQPFlags      = 10
	AttrCreateQPSourceQPN  = 11
	AttrCreateQPEventFD    = 12
	AttrCreateQPRespCap    = 13
	AttrCreateQPRespQPN    = 14

	AttrDestroyQPHandle = 0
	AttrDestroyQPResp   = 1
)

// SRQ create and destroy.
const (
	AttrCreateSRQHandle     = 0
	AttrCreateSRQPD         = 1
	AttrCreateSRQXRCD       = 2
	AttrCreateSRQCQ         = 3
	AttrCreateSRQUserHandle = 4
	AttrCreateSRQMaxWR      = 5
	AttrCreateSRQMaxSGE     = 6
	AttrCreateSRQLimit      = 7
	AttrCreateSRQNumTags    = 8
	AttrCreateSRQType       = 9
	AttrCreateSRQEventFD    = 10
	AttrCreateSRQRespMaxWR  = 11
	AttrCreateSRQRespMaxSGE = 12
	AttrCreateSRQRespNum    = 13

	AttrDestroySRQHandle = 0
	AttrDestroySRQResp   = 1
)

// PD and AH destroy.
const (
	AttrDestroyPDHandle = 0
	AttrDestroyAHHandle = 0
)

// MR destroy, query and registration of a dma-buf.
const (
	AttrDestroyMRHandle = 0

	AttrQueryMRHandle = 0
	AttrQueryMRLKey   = 1
	AttrQueryMRRKey   = 2
	AttrQueryMRLength = 3
	AttrQueryMRIOVA   = 4

	AttrRegDmabufHandle = 0
	AttrRegDmabufPD     = 1
	AttrRegDmabufOffset = 2
	AttrRegDmabufLength = 3
	AttrRegDmabufIOVA   = 4
	AttrRegDmabufFD     = 5
	AttrRegDmabufAccess = 6
	AttrRegDmabufLKey   = 7
	AttrRegDmabufRKey   = 8
)
