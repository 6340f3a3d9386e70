package region

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
)

// Errors of regions.
var (
	// ErrAccess is returned for an Access that is none of the constants.
	ErrAccess = errors.New("unknown access")
	// ErrEmpty is returned for memory of no bytes.
	ErrEmpty = errors.New("no memory")
	// ErrRange is returned for a range that is not within its region, or of a
	// region that was closed.
	ErrRange = errors.New("range is not within an open region")
)

// Region is a memory region. Its methods are safe for concurrent use.
type Region struct {
	dev    *device.Device
	kernel device.MR
	addr   uint64 // what the NIC calls the first byte
	length uint64
	access Access

	bytes []byte          // nil for a dma-buf
	owned *hostmem.Memory // of Alloc

	closing sync.Mutex
	closed  atomic.Bool
}

// Register makes a region of buf, which stays the caller's: it must not be
// unmapped before Close. It should be memory outside the Go heap, such as a
// mapping of a file or what a library allocated. Memory of the Go heap works,
// since the NIC keeps it from the garbage collector until Close and Go does not
// move it, but whole pages are pinned, and a fork may take them away from the
// device. Memory counts against the process's limit of locked memory, in whole
// pages.
func Register(nic *mlx5.NIC, access Access, buf []byte) (*Region, error) {
	if len(buf) == 0 {
		return nil, fmt.Errorf("register memory: %w", ErrEmpty)
	}
	r := &Region{addr: hostmem.AddrOf(buf), length: uint64(len(buf)), access: access, bytes: buf}
	if err := r.register(nic, r.fromMemory); err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", len(buf), err)
	}
	return r, nil
}

// Alloc makes a region of n bytes of new memory, zeroed and page aligned, that
// is freed by Close.
func Alloc(nic *mlx5.NIC, access Access, n int) (*Region, error) {
	mem, err := hostmem.Alloc(n)
	if err != nil {
		return nil, err
	}
	r := &Region{addr: mem.Addr(), length: uint64(n), access: access, bytes: mem.Bytes(), owned: mem}
	if err := r.register(nic, r.fromMemory); err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", n, errors.Join(err, mem.Free()))
	}
	return r, nil
}

// Dmabuf makes a region of length bytes, from offset on, of the dma-buf fd: the
// memory of another device, such as a GPU's. The descriptor stays the caller's
// and may be closed once Dmabuf returns. The kernel must be 5.12 or newer.
func Dmabuf(nic *mlx5.NIC, access Access, fd int, offset, length uint64) (*Region, error) {
	if length == 0 {
		return nil, fmt.Errorf("register dma-buf: %w", ErrEmpty)
	}
	// The address a NIC knows the memory by must agree with the offset within a
	// page, and is otherwise free.
	r := &Region{addr: offset, length: length, access: access}
	err := r.register(nic, func() (device.MR, error) {
		return r.dev.RegisterDmabuf(fd, offset, length, r.addr, access.memory())
	})
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of a dma-buf: %w", length, err)
	}
	return r, nil
}

func (r *Region) fromMemory() (device.MR, error) {
	return r.dev.RegisterMemory(r.addr, r.length, r.access.memory())
}

func (r *Region) register(nic *mlx5.NIC, do func() (device.MR, error)) (err error) {
	if !r.access.Valid() {
		return ErrAccess
	}
	r.dev = nic.Device()
	if err := r.dev.Hold(r); err != nil {
		return err
	}
	if r.kernel, err = do(); err != nil {
		r.dev.Drop(r)
		return err
	}
	return nil
}

// Bytes is the region's memory, or nil for a dma-buf. The memory of Alloc must
// not be touched after Close.
func (r *Region) Bytes() []byte { return r.bytes }

// Len is the region's size in bytes.
func (r *Region) Len() uint64 { return r.length }

// Access is what peers may do to the region.
func (r *Region) Access() Access { return r.access }

// LKey is the local key.
func (r *Region) LKey() uint32 { return r.kernel.LKey }

// RKey is the remote key. A peer that knows it and a queue pair of this process
// may do to the region what both grant.
func (r *Region) RKey() uint32 { return r.kernel.RKey }

// Segment is bytes of this process's memory, for entries and receives.
type Segment struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// outside is the length of a segment that was not within its region. It is
// longer than a segment can be.
const outside = math.MaxUint32

// Outside reports whether the segment was asked for a range that is not within
// its region. Entries with such a segment are refused.
func (s Segment) Outside() bool { return s.Length == outside }

// Local is the n bytes from offset off on. If they are not within the region, or
// the region is closed, the segment is one that every post refuses with
// ErrRange.
func (r *Region) Local(off, n int) Segment {
	if !r.contains(off, n) || n >= outside {
		return Segment{Length: outside}
	}
	return Segment{Addr: r.addr + uint64(off), Length: uint32(n), LKey: r.kernel.LKey}
}

// Target is a place in a peer's region, for writes, reads and atomics. It is
// plain data, which the region's owner sends to the peer by any means.
type Target struct {
	Addr uint64
	RKey uint32
}

// Remote is the place at offset off, for peers. It is ErrRange if that is
// neither in the region nor its end, or the region is closed.
func (r *Region) Remote(off int) (Target, error) {
	if !r.contains(off, 0) {
		return Target{}, fmt.Errorf("offset %d of %d bytes: %w", off, r.length, ErrRange)
	}
	return Target{Addr: r.addr + uint64(off), RKey: r.kernel.RKey}, nil
}

func (r *Region) contains(off, n int) bool {
	return off >= 0 && n >= 0 && uint64(off) <= r.length && uint64(n) <= r.length-uint64(off) && !r.closed.Load()
}

// Close takes the memory away from the NIC and frees it if it was made by
// Alloc. Entries that still use it fail, and peers that reach for it get an
// access error. If the kernel refuses, that is the error; the region then
// counts as closed all the same, and what Alloc allocated is kept until the NIC
// closes. Later calls do nothing and return nil.
func (r *Region) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed.Swap(true) {
		return nil
	}
	defer r.dev.Drop(r)
	if err := r.dev.Deregister(r.kernel); err != nil {
		r.dev.Keep(r.owned, r)
		return fmt.Errorf("deregister memory: %w", err)
	}
	if r.owned != nil {
		return r.owned.Free()
	}
	return nil
}
