// Package ring is the index arithmetic of a NIC's queues: which slot is next, how
// many are free, what a completion frees, whose an entry is. It has no memory.
//
// Rings have a power of two of slots and are counted by free-running counters,
// which are masked on use; the hardware sees the low bits of the same counters.
// None of the types is safe for concurrent use.
package ring

import (
	"fmt"
	"math/bits"
)

// MaxWork is the most slots of a work queue. The hardware counts them with 16
// bits, and half of that leaves no doubt which slot a counter means.
const MaxWork = 1 << 15

// MaxCompletions is the most slots of a completion queue, half of what its 24-bit
// consumer counter tells apart.
const MaxCompletions = 1 << 23

// RoundUp is the smallest power of two that is at least n, and 1 for 0. n is at
// most 1<<31.
func RoundUp(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}

// checkSize panics unless size is a power of two up to most: sizes are computed,
// not received, so another one is a mistake of the caller.
func checkSize(size, most uint32) {
	if size == 0 || size&(size-1) != 0 || size > most {
		panic(fmt.Sprintf("ring: %d slots is not a power of two up to %d", size, most))
	}
}
