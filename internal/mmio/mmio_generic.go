//go:build !amd64 && !arm64

package mmio

import (
	"sync/atomic"
	"unsafe"
)

// ToDevice makes the stores before it visible before those after it.
func ToDevice() { fence() }

// FromDevice keeps the loads after it behind the atomic load before it.
func FromDevice() { fence() }

// Record publishes earlier stores by storing be to a doorbell record.
func Record(record *uint32, be uint32) { atomic.StoreUint32(record, be) }

// Release hands entries that were read back, by storing be to a doorbell record.
func Release(record *uint32, be uint32) { atomic.StoreUint32(record, be) }

// Ring publishes earlier stores by storing be to a doorbell record, then stores
// doorbell to the register.
func Ring(record *uint32, be uint32, reg *uint64, doorbell uint64) {
	atomic.StoreUint32(record, be)
	atomic.StoreUint64(reg, doorbell)
}

// BlueFlame is Ring with an entry in place of the doorbell: it copies blocks of 64
// bytes, at least one, from entry on to the register's words from reg on, in 8-byte
// stores of ascending addresses. Both must have them all.
func BlueFlame(record *uint32, be uint32, reg, entry *[8]uint64, blocks uint32) {
	atomic.StoreUint32(record, be)
	to := unsafe.Slice((*uint64)(unsafe.Pointer(reg)), 8*blocks)
	from := unsafe.Slice((*uint64)(unsafe.Pointer(entry)), 8*blocks)
	for i := range to {
		atomic.StoreUint64(&to[i], from[i])
	}
	fence()
}

// fence is a sequentially consistent operation on a word nobody shares: with the
// compilers of these architectures it orders everything around it.
func fence() {
	var word atomic.Uint32
	word.Store(1)
}
