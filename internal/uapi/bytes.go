package uapi

import "unsafe"

// Bytes returns the memory of *v as a byte slice. The slice aliases v and keeps
// it alive. T must be one of this package's structures or another type without
// Go pointers.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Size returns the size of T in bytes.
func Size[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
