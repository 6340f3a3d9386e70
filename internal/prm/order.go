package prm

import "math/bits"

// BE32 turns a number into the word whose plain store puts the number's bytes in
// memory in big-endian order, and back.
func BE32(v uint32) uint32 {
	if bigEndian {
		return v
	}
	return bits.ReverseBytes32(v)
}

// BE64 is BE32 for 64-bit words.
func BE64(v uint64) uint64 {
	if bigEndian {
		return v
	}
	return bits.ReverseBytes64(v)
}
