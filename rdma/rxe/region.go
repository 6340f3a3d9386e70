package rxe

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/work"
)

// ErrEmpty is returned for memory of no bytes.
var ErrEmpty = errors.New("no memory")

// Region is a memory region. Its methods are safe for concurrent use.
type Region struct {
	mem   *nic.Memory
	bytes []byte
}

// Register makes a region of buf, which stays the caller's: it must be memory outside
// the Go heap, such as a mapping of a file, and must not be unmapped before Close.
// Memory counts against the process's limit of locked memory, in whole pages.
func Register(n *NIC, access work.Access, buf []byte) (*Region, error) {
	if len(buf) == 0 {
		return nil, fmt.Errorf("register memory: %w", ErrEmpty)
	}
	mem, err := n.dev.Register(hostmem.AddrOf(buf), uint64(len(buf)), access, nil)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", len(buf), err)
	}
	return &Region{mem: mem, bytes: buf}, nil
}

// Alloc makes a region of size bytes of new memory, zeroed and page aligned, that is
// freed by Close.
func Alloc(n *NIC, access work.Access, size int) (*Region, error) {
	owned, err := hostmem.Alloc(size)
	if err != nil {
		return nil, err
	}
	mem, err := n.dev.Register(owned.Addr(), uint64(size), access, owned)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", size, errors.Join(err, owned.Free()))
	}
	return &Region{mem: mem, bytes: owned.Bytes()}, nil
}

// Bytes is the region's memory. That of Alloc must not be touched after Close.
func (r *Region) Bytes() []byte { return r.bytes }

// LKey is the local key.
func (r *Region) LKey() uint32 { return r.mem.LKey() }

// RKey is the remote key. A peer that knows it and a queue pair of this process may
// do to the region what both grant.
func (r *Region) RKey() uint32 { return r.mem.RKey() }

// Local is the n bytes from offset off on. If they are not within the region, or the
// region is closed, the segment is one that every post refuses with work.ErrRange.
func (r *Region) Local(off, n int) work.Segment { return r.mem.Local(off, n) }

// Remote is the place at offset off, for peers. It is work.ErrRange if that is
// neither in the region nor its end, or the region is closed.
func (r *Region) Remote(off int) (work.Target, error) { return r.mem.Remote(off) }

// Close takes the memory away from the NIC and frees it if it was made by Alloc.
// Entries that still use it fail, and peers that reach for it get an access error.
// If the kernel refuses, that is the error; the region then counts as closed all the
// same, and what Alloc allocated is kept until the NIC closes. Later calls do nothing
// and return nil.
func (r *Region) Close() error { return r.mem.Close(r) }
