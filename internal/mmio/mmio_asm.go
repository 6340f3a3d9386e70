//go:build amd64 || arm64

package mmio

// ToDevice makes the stores to memory before it visible to the NIC before those
// after it: entries before the doorbell record that counts them.
func ToDevice()

// Record publishes earlier stores to memory by storing be to a doorbell record,
// in that order. It is the whole doorbell of a receive queue.
//
//go:noescape
func Record(record *uint32, be uint32)

// Release hands the entries of a ring that were read back to the NIC, by storing
// be to a doorbell record after the loads from memory before it.
//
//go:noescape
func Release(record *uint32, be uint32)

// Ring publishes earlier stores to memory by storing be to a doorbell record,
// then stores doorbell to the device register reg as one 64-bit store, and
// flushes it, so that a lock released afterwards hands the register on in order.
// It posts to a send queue, and arms a completion queue.
//
//go:noescape
func Ring(record *uint32, be uint32, reg *uint64, doorbell uint64)

// BlueFlame is Ring with an entry in place of the doorbell: it copies blocks of 64
// bytes, at least one, from entry on to the register's words from reg on, in stores of
// ascending addresses: 16 bytes each on amd64 and 8 on arm64, as rdma-core's. Both
// must have them all.
//
//go:noescape
func BlueFlame(record *uint32, be uint32, reg, entry *[8]uint64, blocks uint32)
