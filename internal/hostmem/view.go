package hostmem

import (
	"fmt"
	"math"
	"unsafe"
)

// AddrOf is the address of b's first byte. It is only of use for memory outside
// the Go heap: a Go object may be collected while its address is in flight.
func AddrOf(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// View is the n bytes at addr, which must be memory outside the Go heap that
// stays mapped while the view is used. Touching a view of memory that is not
// mapped ends the process, unless the goroutine asked for a panic instead
// (debug.SetPanicOnFault). View panics if n is negative or the range is not in the
// address space.
func View(addr uint64, n int) []byte {
	if n < 0 || !inAddressSpace(addr, uint64(n)) {
		panic(fmt.Sprintf("hostmem: view of %d bytes at %#x", n, addr))
	}
	if n == 0 {
		return nil
	}
	// An integer becomes a pointer by way of memory: these addresses are no Go
	// objects', so none of the rules for unsafe.Pointer(uintptr) can be kept.
	p := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)
}

// Mapped reports whether the n bytes at addr are mapped in this process, and
// addr is not 0. An empty range is. On Linux the kernel is asked; it does not
// tell whether the memory may be read or written. Elsewhere only a range that
// starts at 0 or leaves the address space is refused.
func Mapped(addr uint64, n uint64) bool {
	if !inAddressSpace(addr, n) {
		return false
	}
	return n == 0 || mapped(uintptr(addr), uintptr(n))
}

// Word32 is the 32-bit word at the start of b, for atomic and device access.
// It panics if b is shorter than 4 bytes or does not start at a multiple of 4.
func Word32(b []byte) *uint32 {
	if len(b) < 4 || AddrOf(b)%4 != 0 {
		panic(wordError{b, 4})
	}
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(b)))
}

// Word64 is the 64-bit word at the start of b, for atomic and device access.
// It panics if b is shorter than 8 bytes or does not start at a multiple of 8.
func Word64(b []byte) *uint64 {
	if len(b) < 8 || AddrOf(b)%8 != 0 {
		panic(wordError{b, 8})
	}
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}

// wordError is what Word32 and Word64 panic with.
type wordError struct {
	b    []byte
	size int
}

func (e wordError) Error() string {
	return fmt.Sprintf("hostmem: %d bytes at %#x hold no aligned word of %d bytes", len(e.b), AddrOf(e.b), e.size)
}

// Split is b in pieces, one after the other, without what is left at its end. An
// index into it is checked once, and what is in the piece then not at all. It panics
// if b does not start at a multiple of 8.
func Split[T ~[2]uint64 | ~[8]uint64 | ~[16]uint32 | ~[64]byte](b []byte) []T {
	if AddrOf(b)%8 != 0 {
		panic(wordError{b, 8})
	}
	n := len(b) / int(unsafe.Sizeof(*new(T)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// inAddressSpace reports whether [addr, addr+n) is a range of this process's
// addresses that does not start at 0.
func inAddressSpace(addr, n uint64) bool {
	return addr != 0 && addr <= math.MaxUint-n && n <= math.MaxUint
}
