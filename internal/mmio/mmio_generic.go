//go:build !amd64 && !arm64

package mmio

import (
	"sync/atomic"
	"unsafe"
)

// ToDevice makes the stores before it visible before those after it.
func ToDevice() { fence() }

// FromDevice keeps the loads after it behind those before it.
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

// BeginBlueFlame is Ring up to the store to the register.
func BeginBlueFlame(record *uint32, be uint32) { atomic.StoreUint32(record, be) }

// Copy64 copies 64 bytes in 8-byte stores of ascending addresses. Both addresses
// are multiples of 8.
func Copy64(dst, src unsafe.Pointer) {
	to, from := (*[8]uint64)(dst), (*[8]uint64)(src)
	for i := range to {
		atomic.StoreUint64(&to[i], from[i])
	}
}

// Flush ends a sequence of stores to a register.
func Flush() { fence() }

// fence is a sequentially consistent operation on a word nobody shares: with the
// compilers of these architectures it orders everything around it.
func fence() {
	var word atomic.Uint32
	word.Store(1)
}
