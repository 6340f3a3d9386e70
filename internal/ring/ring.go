// Package ring is the index arithmetic of a NIC's queues: their sizes, which slot
// a counter means, whose an entry is. It has no memory.
//
// Rings have a power of two of slots and are counted by free-running counters,
// which are masked on use; the hardware sees the low bits of the same counters.
package ring

import "math/bits"

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
