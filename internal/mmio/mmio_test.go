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
	words := [3]uint32{1, 2, 3}
	var entry [8]uint64
	for i := range entry {
		entry[i] = 0x0101010101010101 * uint64(i+1)
	}
	var register [10]uint64
	BeginBlueFlame(&words[1], 0x0a0b0c0d)
	Copy64(unsafe.Pointer(&register[1]), unsafe.Pointer(&entry))
	Flush()
	require.Equal(t, [3]uint32{1, 0x0a0b0c0d, 3}, words)
	require.Equal(t, entry[:], register[1:9])
	require.Zero(t, register[0])
	require.Zero(t, register[9])
}

func TestCopyBlock(t *testing.T) {
	src, dst := make([]byte, 72), make([]byte, 72)
	for i := range src {
		src[i] = byte(i + 1)
	}
	CopyBlock(dst, src)
	require.Equal(t, src[:64], dst[:64])
	require.Equal(t, make([]byte, 8), dst[64:])
	require.Panics(t, func() { CopyBlock(dst[:63:63], src) })
	require.Panics(t, func() { CopyBlock(dst, src[:63:63]) })
}

func TestNothingIsAllocated(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var record uint32
		var register, entry [8]uint64
		ToDevice()
		FromDevice()
		Record(&record, 1)
		Release(&record, 1)
		Ring(&record, 2, &register[0], 3)
		BeginBlueFlame(&record, 4)
		Copy64(unsafe.Pointer(&register), unsafe.Pointer(&entry))
		Flush()
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
		BeginBlueFlame(&record, 1)
		Copy64(unsafe.Pointer(&register), unsafe.Pointer(&entry))
		Flush()
	}
}
