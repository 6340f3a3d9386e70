package nic

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// Memory is a memory region. Its methods are safe for concurrent use.
type Memory struct {
	dev    *Device
	kernel verbs.MR
	addr   uint64 // what the NIC calls the first byte
	length uint64
	owned  *hostmem.Memory

	closing sync.Mutex
	closed  atomic.Bool
}

// Register registers length bytes of this process at addr, which the NIC knows by
// the same address. owned, which may be nil, is freed by Close.
func (d *Device) Register(addr, length uint64, access work.Access, owned *hostmem.Memory) (*Memory, error) {
	m := &Memory{dev: d, addr: addr, length: length, owned: owned}
	return m, m.register(access, func(a verbs.Access) (verbs.MR, error) {
		return d.ctx.RegMR(verbs.RegMR{PD: d.pd, Addr: addr, Length: length, IOVA: addr, Access: a})
	})
}

// RegisterDmabuf registers length bytes, from offset on, of a dma-buf. The address
// a NIC knows the memory by must agree with the offset within a page, and is
// otherwise free: it is the offset.
func (d *Device) RegisterDmabuf(fd int, offset, length uint64, access work.Access) (*Memory, error) {
	m := &Memory{dev: d, addr: offset, length: length}
	return m, m.register(access, func(a verbs.Access) (verbs.MR, error) {
		return d.ctx.RegDmabufMR(verbs.RegDmabufMR{
			PD: d.pd, FD: fd, Offset: offset, Length: length, IOVA: offset, Access: a,
		})
	})
}

func (m *Memory) register(access work.Access, do func(verbs.Access) (verbs.MR, error)) (err error) {
	if !access.Valid() {
		return work.ErrAccess
	}
	if err := m.dev.Hold(m); err != nil {
		return err
	}
	if m.kernel, err = do(m.dev.grant(access.Memory())); err != nil {
		m.dev.Drop(m)
		return err
	}
	return nil
}

// grant is access without the rights that the device has no operations for: the
// kernel refuses them.
func (d *Device) grant(access verbs.Access) verbs.Access {
	if d.attr.AtomicCap == 0 {
		access &^= verbs.AccessRemoteAtomic
	}
	return access
}

// Len is the region's size in bytes.
func (m *Memory) Len() uint64 { return m.length }

// LKey is the local key.
func (m *Memory) LKey() uint32 { return m.kernel.LKey }

// RKey is the remote key.
func (m *Memory) RKey() uint32 { return m.kernel.RKey }

// Local is the n bytes from offset off on, or work.NoSegment.
func (m *Memory) Local(off, n int) work.Segment {
	if !m.contains(off, n) || n >= math.MaxUint32 {
		return work.NoSegment()
	}
	return work.Segment{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.kernel.LKey}
}

// Remote is the place at offset off, for peers. It is work.ErrRange if that is
// neither in the region nor its end, or the region is closed.
func (m *Memory) Remote(off int) (work.Target, error) {
	if !m.contains(off, 0) {
		return work.Target{}, fmt.Errorf("offset %d of %d bytes: %w", off, m.length, work.ErrRange)
	}
	return work.Target{Addr: m.addr + uint64(off), RKey: m.kernel.RKey}, nil
}

func (m *Memory) contains(off, n int) bool {
	return off >= 0 && n >= 0 && uint64(off) <= m.length && uint64(n) <= m.length-uint64(off) && !m.closed.Load()
}

// Close takes the memory away from the NIC and frees what it owns. If the kernel
// refuses, that is the error; the region then counts as closed all the same, and
// what it owns is kept until the device closes. holder is kept from the garbage
// collector as long. Later calls do nothing and return nil. On a device that is
// gone it succeeds.
func (m *Memory) Close(holder any) error {
	m.closing.Lock()
	defer m.closing.Unlock()
	if m.closed.Swap(true) {
		return nil
	}
	defer m.dev.Drop(m)
	if err := m.dev.IgnoreGone(m.dev.ctx.DeregMR(m.kernel.Handle)); err != nil {
		m.dev.Keep(m.owned, holder)
		return fmt.Errorf("deregister memory: %w", err)
	}
	if m.owned != nil {
		return m.owned.Free()
	}
	return nil
}
