package prm

// Doorbell page objects, for contexts that allocate their pages
// (rdma/mlx5_user_ioctl_cmds.h).
const (
	ObjectUAR = 0x1008 // MLX5_IB_OBJECT_UAR

	MethodUARAlloc   = 0x1000 // MLX5_IB_METHOD_UAR_OBJ_ALLOC
	MethodUARDestroy = 0x1001 // MLX5_IB_METHOD_UAR_OBJ_DESTROY

	// Attributes of MethodUARAlloc (MLX5_IB_ATTR_UAR_OBJ_ALLOC_*).
	AttrUARHandle     = 0x1000 // new object
	AttrUARType       = 0x1001 // constant: UARTypeBlueFlame or UARTypeNonCached
	AttrUARMapOffset  = 0x1002 // out, 64 bits
	AttrUARMapLength  = 0x1003 // out, 32 bits
	AttrUARPageNumber = 0x1004 // out, 32 bits

	// Attribute of MethodUARDestroy.
	AttrUARDestroyHandle = 0x1000
)

// Types of doorbell pages (rdma/mlx5_user_ioctl_verbs.h,
// enum mlx5_ib_uapi_uar_alloc_type).
const (
	UARTypeBlueFlame = 0 // write combining; EOPNOTSUPP where the NIC has none
	UARTypeNonCached = 1
)

// Driver attributes of the core's native methods, with the ids of the mlx5 driver.
const (
	AttrQueryContextResponse = 0x1000 // MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX: AllocContextResponse
	AttrCreateCQPage         = 0x1002 // MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX: 32 bits
)

// Commands in the offset of a mapping (rdma/mlx5-abi.h, enum mlx5_ib_mmap_cmd).
const (
	MapRegular      = 0 // static doorbell page, write combining if there is any
	MapWriteCombine = 2
	MapNonCached    = 3
	MapCoreClock    = 5
	MapAllocate     = 6
	MapClockInfo    = 7
	MapDeviceMemory = 8
	MapObject       = 9 // first of the commands of objects' offsets
)

// MapOffset is the offset, in bytes, that maps page index, below 65536, of a
// command, below 256, on a host with pages of pageSize bytes. In units of pages it
// holds bits 7:0 of the index, the command above them, and the rest of the index
// above that.
func MapOffset(command, index uint32, pageSize int) int64 {
	page := index>>8<<16 | command<<8 | index&0xff
	return int64(page) * int64(pageSize)
}

// ParseMapOffset is the command and the index of a mapping's offset; ok is false
// if the offset is not one that MapOffset gives.
func ParseMapOffset(offset int64, pageSize int) (command, index uint32, ok bool) {
	page := offset / int64(pageSize)
	if offset < 0 || offset%int64(pageSize) != 0 || page > 0xffffff {
		return 0, 0, false
	}
	return uint32(page >> 8 & 0xff), uint32(page>>16<<8 | page&0xff), true
}
