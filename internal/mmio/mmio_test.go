package mmio

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestRecord(t *testing.T) {
	words := [3]uint32{1, 2, 3}
	Record(&words[1], 0x0a0b0c0d)
	require.Equal(t, [3]uint32{1, 0x0a0b0c0d, 3}, words)
}

func TestRelease(t *testing.T) {
	words := [3]uint32{1, 2, 3}
	Release(&words[1], 0x0a0b0c0d)
	require.Equal(t, [3]uint32{1, 0x0a0b0c0d, 3}, words)
}

func TestRing(t *testing.T) {
	words := [3]uint32{1, 2, 3}
	registers := [3]uint64{4, 5, 6}
	Ring(&words[1], 0x0a0b0c0d, &registers[1], 0x1122334455667788)
	require.Equal(t, [3]uint32{1, 0x0a0b0c0d, 3}, words)
	require.Equal(t, [3]uint64{4, 0x1122334455667788, 6}, registers)
}

func TestBlueFlame(t *testing.T) {
	for blocks := uint32(1); blocks <= 4; blocks++ {
		words := [3]uint32{1, 2, 3}
		var entry, register [40]uint64 // a multiple of 8 is enough
		for i := range entry {
			entry[i] = 0x0101010101010101 * uint64(i+1)
		}
		BlueFlame(&words[1], 0x0a0b0c0d, block(&register[1]), block(&entry[1]), blocks)
		require.Equal(t, [3]uint32{1, 0x0a0b0c0d, 3}, words)
		require.Equal(t, entry[1:1+8*blocks], register[1:1+8*blocks])
		require.Zero(t, register[0])
		require.Zero(t, register[1+8*blocks])
	}
}

func block(word *uint64) *[8]uint64 { return (*[8]uint64)(unsafe.Pointer(word)) }

func TestNothingIsAllocated(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var record uint32
		var register, entry [8]uint64
		ToDevice()
		FromDevice()
		Record(&record, 1)
		Release(&record, 1)
		Ring(&record, 2, &register[0], 3)
		BlueFlame(&record, 4, block(&register[0]), block(&entry[0]), 1)
	}))
}

func BenchmarkRecord(b *testing.B) {
	var record uint32
	for b.Loop() {
		Record(&record, 1)
	}
}

// BenchmarkRing is of ordinary memory: it has the cost of the call and of the
// fences, and not that of a device.
func BenchmarkRing(b *testing.B) {
	var record uint32
	var register uint64
	for b.Loop() {
		Ring(&record, 1, &register, 2)
	}
}

func BenchmarkBlueFlame(b *testing.B) {
	var record uint32
	var register, entry [8]uint64
	b.SetBytes(64)
	for b.Loop() {
		BlueFlame(&record, 1, block(&register[0]), block(&entry[0]), 1)
	}
}
