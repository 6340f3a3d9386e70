package mmio

import "unsafe"

// CopyBlock is Copy64 for callers that hold slices: it copies the first 64 bytes
// of src to the start of dst. It panics if either is shorter.
func CopyBlock(dst, src []byte) {
	_, _ = dst[63], src[63]
	Copy64(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)))
}
