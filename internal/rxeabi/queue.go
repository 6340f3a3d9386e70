package rxeabi

import "structs"

// MapInfo is struct mminfo: how a queue is mapped, once.
type MapInfo struct {
	_      structs.HostLayout
	Offset uint64 // for mmap of the device's file
	Size   uint32 // bytes
	Pad    uint32
}

// CreateCQResp is struct rxe_create_cq_resp, the driver's response to the creation
// of a completion queue.
type CreateCQResp struct {
	_       structs.HostLayout
	Mapping MapInfo
}

// CreateQPResp is struct rxe_create_qp_resp, the driver's response to the creation
// of a queue pair. The driver wants no request: with one it refuses, and Linux
// 5.4's crashes.
type CreateQPResp struct {
	_        structs.HostLayout
	Receives MapInfo
	Sends    MapInfo
}

// Queue is struct rxe_queue_buf, the start of a mapped queue; its elements follow.
// Both indices are below the number of slots. The queue is empty where they are
// equal and full one slot earlier. Whoever produces stores an element and then
// ProducerIndex, and the other side, once done with it, ConsumerIndex: user space
// produces entries and receives, and consumes completions.
type Queue struct {
	_             structs.HostLayout
	Log2ElemSize  uint32 // of the distance of elements, which are shorter
	IndexMask     uint32 // slots - 1; a power of two less one
	_             [30]uint32
	ProducerIndex uint32
	_             [31]uint32
	ConsumerIndex uint32
	_             [31]uint32
}
