package region

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/work"
)

// Errors of regions.
var (
	// ErrAccess is returned for an Access that is none of the constants.
	ErrAccess = work.ErrAccess
	// ErrEmpty is returned for memory of no bytes.
	ErrEmpty = errors.New("no memory")
	// ErrRange is returned for a range that is not within its region, or of a
	// region that was closed.
	ErrRange = work.ErrRange
)

// Segment is bytes of this process's memory, for entries and receives.
type Segment = work.Segment

// Target is a place in a peer's region, for writes, reads and atomics. It is
// plain data, which the region's owner sends to the peer by any means.
type Target = work.Target

// Region is a memory region. Its methods are safe for concurrent use.
type Region struct {
	mem    *nic.Memory
	access Access
	bytes  []byte // nil for a dma-buf
}

// Register makes a region of buf, which stays the caller's: it must not be
// unmapped before Close. It should be memory outside the Go heap, such as a
// mapping of a file or what a library allocated. Memory of the Go heap works,
// since the NIC keeps it from the garbage collector until Close and Go does not
// move it, but whole pages are pinned, and a fork may take them away from the
// device. Memory counts against the process's limit of locked memory, in whole
// pages.
func Register(card *mlx5.NIC, access Access, buf []byte) (*Region, error) {
	if len(buf) == 0 {
		return nil, fmt.Errorf("register memory: %w", ErrEmpty)
	}
	mem, err := card.Device().Register(hostmem.AddrOf(buf), uint64(len(buf)), access, nil)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", len(buf), err)
	}
	return &Region{mem: mem, access: access, bytes: buf}, nil
}

// Alloc makes a region of n bytes of new memory, zeroed and page aligned, that
// is freed by Close.
func Alloc(card *mlx5.NIC, access Access, n int) (*Region, error) {
	owned, err := hostmem.Alloc(n)
	if err != nil {
		return nil, err
	}
	mem, err := card.Device().Register(owned.Addr(), uint64(n), access, owned)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", n, errors.Join(err, owned.Free()))
	}
	return &Region{mem: mem, access: access, bytes: owned.Bytes()}, nil
}

// Dmabuf makes a region of length bytes, from offset on, of the dma-buf fd: the
// memory of another device, such as a GPU's. The descriptor stays the caller's
// and may be closed once Dmabuf returns. The kernel must be 5.12 or newer.
func Dmabuf(card *mlx5.NIC, access Access, fd int, offset, length uint64) (*Region, error) {
	if length == 0 {
		return nil, fmt.Errorf("register dma-buf: %w", ErrEmpty)
	}
	mem, err := card.Device().RegisterDmabuf(fd, offset, length, access)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of a dma-buf: %w", length, err)
	}
	return &Region{mem: mem, access: access}, nil
}

// Bytes is the region's memory, or nil for a dma-buf. The memory of Alloc must
// not be touched after Close.
func (r *Region) Bytes() []byte { return r.bytes }

// Len is the region's size in bytes.
func (r *Region) Len() uint64 { return r.mem.Len() }

// Access is what peers may do to the region.
func (r *Region) Access() Access { return r.access }

// LKey is the local key.
func (r *Region) LKey() uint32 { return r.mem.LKey() }

// RKey is the remote key. A peer that knows it and a queue pair of this process
// may do to the region what both grant.
func (r *Region) RKey() uint32 { return r.mem.RKey() }

// Local is the n bytes from offset off on. If they are not within the region, or
// the region is closed, the segment is one that every post refuses with
// ErrRange.
func (r *Region) Local(off, n int) Segment { return r.mem.Local(off, n) }

// Remote is the place at offset off, for peers. It is ErrRange if that is
// neither in the region nor its end, or the region is closed.
func (r *Region) Remote(off int) (Target, error) { return r.mem.Remote(off) }

// Close takes the memory away from the NIC and frees it if it was made by
// Alloc. Entries that still use it fail, and peers that reach for it get an
// access error. If the kernel refuses, that is the error; the region then
// counts as closed all the same, and what Alloc allocated is kept until the NIC
// closes. Later calls do nothing and return nil.
func (r *Region) Close() error { return r.mem.Close(r) }
