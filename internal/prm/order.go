package prm

import (
	"encoding/binary"
	"math/bits"
)

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

// put64 writes the first 8 bytes of b in big-endian order, in one store whatever is
// known of v: the doorbell loads them as one word, and waits for several stores.
func put64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, BE64(v)) }
