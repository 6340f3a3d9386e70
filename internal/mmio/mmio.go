// Package mmio orders stores to a NIC: barriers and the stores to doorbell
// registers, named by what they are for. Each function does a whole step of the
// doorbell sequence in one call, because a plain Go store may move past another
// one and a store of sync/atomic is, on amd64, a locked exchange that device
// memory does not take well.
//
// The kinds of order a NIC needs, and the instructions that give it where
// hardware is supported (the choice is that of rdma-core, util/udma_barrier.h):
//
//	                                             amd64    arm64
//	stores to memory before stores to memory     none     DMB OSHST   udma_to_device_barrier
//	loads from memory before loads from memory   none     DMB OSHLD   udma_from_device_barrier
//	loads from memory before stores to memory    none     DMB OSH
//	stores to memory before stores to a register SFENCE   DSB ST      mmio_wc_start
//	stores to a register before what follows     SFENCE   DSB ST      mmio_flush_writes
//
// On other architectures the functions use sync/atomic, which is enough for a
// software NIC in the same process; there is no hardware path on them.
//
// Memory that the NIC shares is outside the Go heap, and nothing here makes a
// pointer escape. All values are in memory order: the bytes the NIC expects,
// loaded as a word of the host.
package mmio
