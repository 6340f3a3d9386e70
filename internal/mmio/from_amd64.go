package mmio

// FromDevice keeps the loads from memory after it behind the atomic load before it: the
// rest of a completion behind its owner bit, and the message behind that.
//
// It is nothing here (udma_from_device_barrier): the processor keeps loads in order, and
// the compiler moves none before an atomic one. rdma-core has an LFENCE, which only loads
// from write-combining memory need; completions are in ordinary memory.
func FromDevice() {}
