package uapi

import "structs"

// AsyncEvent is one record of the asynchronous event file (struct
// ib_uverbs_async_event_desc). Element is the user handle of the object, or a
// port number.
type AsyncEvent struct {
	_         structs.HostLayout
	Element   uint64
	EventType uint32
	Reserved  uint32
}

// CompEvent is one record of a completion channel (struct
// ib_uverbs_comp_event_desc): the user handle of the completion queue.
type CompEvent struct {
	_        structs.HostLayout
	CQHandle uint64
}

// Values of AsyncEvent.EventType (ib_verbs.h, enum ib_event_type).
const (
	EventCQErr            = 0
	EventQPFatal          = 1
	EventQPReqErr         = 2
	EventQPAccessErr      = 3
	EventCommEst          = 4
	EventSQDrained        = 5
	EventPathMig          = 6
	EventPathMigErr       = 7
	EventDeviceFatal      = 8
	EventPortActive       = 9
	EventPortErr          = 10
	EventLIDChange        = 11
	EventPKeyChange       = 12
	EventSMChange         = 13
	EventSRQErr           = 14
	EventSRQLimitReached  = 15
	EventQPLastWQEReached = 16
	EventClientReregister = 17
	EventGIDChange        = 18
	EventWQFatal          = 19
)

// WorkCompletion is struct ib_uverbs_wc, the completion record of Soft-RoCE's
// mapped queues.
type WorkCompletion struct {
	_            structs.HostLayout
	WRID         uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Ex           [4]byte // immediate data in wire order, or an invalidated rkey
	QPNum        uint32
	SrcQP        uint32
	WcFlags      uint32
	PkeyIndex    uint16
	Slid         uint16
	Sl           uint8
	DlidPathBits uint8
	PortNum      uint8
	Reserved     uint8
}
