package rxeabi

import (
	"fmt"
	"unsafe"
)

// View is the start of b as a T, one of the kernel's structures. It panics if b is
// shorter, or not aligned: its memory is the kernel's, or made for this.
func View[T any](b []byte) *T {
	p := unsafe.Pointer(unsafe.SliceData(b))
	var t T
	if len(b) < int(unsafe.Sizeof(t)) || uintptr(p)%unsafe.Alignof(t) != 0 {
		panic(fmt.Sprintf("rxeabi: %d bytes at %#x are no %T", len(b), p, t))
	}
	return (*T)(p)
}

// Size is the size of T in bytes.
func Size[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// Bytes is the memory of *v.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
