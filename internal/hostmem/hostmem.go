// Package hostmem owns memory outside the Go heap: page-aligned mappings that a
// NIC may read and write, and views of raw addresses for the software NIC.
//
// The Go runtime neither moves, scans nor returns this memory, so its address
// may be given to the kernel and to a device for as long as the [Memory] lives.
// Nothing that holds a Go pointer may be stored in it.
package hostmem

import (
	"fmt"
	"os"
	"sync/atomic"
)

var (
	liveMappings atomic.Int64
	liveBytes    atomic.Int64
	pageSize     = os.Getpagesize()
)

// Memory is one mapping, or a piece of an [Arena]'s. Its owner calls Free when no device can reach it any
// more; the garbage collector never does. Free may be called from any goroutine,
// but not while another one still uses the bytes.
type Memory struct {
	bytes   []byte // the n bytes asked for
	mapping atomic.Pointer[[]byte]
	slab    *slab // that mapping is a piece of; nil if it stands alone
}

// Alloc maps n bytes, n > 0, page aligned and zeroed. On Linux a forked child
// does not get a copy, so pages pinned by a device stay the parent's. The
// mapping is a whole number of pages; the caller frees it.
func Alloc(n int) (*Memory, error) {
	if n <= 0 {
		return nil, fmt.Errorf("allocate host memory: %d bytes is not a positive size", n)
	}
	size := roundUp(n)
	if size < n {
		return nil, fmt.Errorf("allocate host memory: %d bytes is too large", n)
	}
	mapping, err := mapPages(size)
	if err != nil {
		return nil, fmt.Errorf("allocate host memory of %d bytes: %w", n, err)
	}
	return newMemory(mapping, n), nil
}

// newMemory counts a mapping, of whose bytes n were asked for.
func newMemory(mapping []byte, n int) *Memory {
	liveMappings.Add(1)
	liveBytes.Add(int64(len(mapping)))
	m := &Memory{bytes: mapping[:n:n]}
	m.mapping.Store(&mapping)
	return m
}

// Bytes is the memory, of the length given to Alloc. It must not be touched
// after Free.
func (m *Memory) Bytes() []byte { return m.bytes }

// Addr is the address of the first byte, a multiple of PageSize.
func (m *Memory) Addr() uint64 { return AddrOf(m.bytes) }

// Free unmaps the memory, or gives it back to its arena. Calls after the first successful one do nothing and
// return nil. An error means that the memory is still mapped.
func (m *Memory) Free() error {
	mapping := m.mapping.Swap(nil)
	if mapping == nil {
		return nil
	}
	if m.slab != nil {
		m.slab.put(*mapping)
		return nil
	}
	if err := unmapPages(*mapping); err != nil {
		m.mapping.Store(mapping)
		return fmt.Errorf("free host memory of %d bytes: %w", len(m.bytes), err)
	}
	liveMappings.Add(-1)
	liveBytes.Add(-int64(len(*mapping)))
	return nil
}

// Live is how many mappings, and how many bytes in whole pages, were allocated
// and not yet freed by this process. Tests use it to find leaks.
func Live() (mappings int, bytes int64) {
	return int(liveMappings.Load()), liveBytes.Load()
}

// PageSize is the size of a page of the host, in bytes.
func PageSize() int { return pageSize }

// roundUp rounds n up to whole pages; it wraps to a negative number near the
// largest int.
func roundUp(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }
