package vfiouser

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// Memory is the guest's memory: what the client has shared with the device, at the
// addresses that the device is given (guest physical ones where there is no IOMMU).
// Every access is checked against what is shared at the time. It is safe for
// concurrent use; an access and the withdrawal of memory exclude each other, so that
// once the client has its answer nothing of the memory is touched any more.
type Memory struct {
	mu       sync.RWMutex
	mappings []mapping // by address, without overlap
	mapped   uint64    // bytes of them that are reached
}

// mapping is a range of guest memory. mem is nil for one that came without a
// descriptor, which the device cannot reach.
type mapping struct {
	addr, size  uint64
	read, write bool
	mem         []byte
}

func (m *mapping) end() uint64 { return m.addr + m.size }

// add maps what the client shares. It takes over no descriptor.
func (m *Memory) add(r dmaMap, fd int) error {
	v := mapping{addr: r.address, size: r.size, read: r.flags&dmaRead != 0, write: r.flags&dmaWrite != 0}
	if r.flags&^(dmaRead|dmaWrite) != 0 || r.size == 0 || r.address+r.size < r.address {
		return syscall.EINVAL
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mappings) == maxMappings {
		return syscall.ENOSPC
	}
	at, _ := slices.BinarySearchFunc(m.mappings, v.addr, func(o mapping, addr uint64) int { return cmp.Compare(o.addr, addr) })
	if at > 0 && m.mappings[at-1].end() > v.addr || at < len(m.mappings) && v.end() > m.mappings[at].addr {
		return syscall.EEXIST
	}
	if fd >= 0 {
		if r.size > maxMapped-m.mapped {
			return syscall.ENOSPC
		}
		var err error
		if v.mem, err = mapShared(fd, r); err != nil {
			return err
		}
		m.mapped += r.size
	}
	m.mappings = slices.Insert(m.mappings, at, v)
	return nil
}

// mapShared maps a range of a file that has it: a page beyond a file's end would
// fault.
func mapShared(fd int, r dmaMap) ([]byte, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, err
	}
	end := r.offset + r.size
	if s.Mode&unix.S_IFMT != unix.S_IFREG || end < r.offset || s.Size < 0 || end > uint64(s.Size) {
		return nil, syscall.EINVAL
	}
	prot := 0
	if r.flags&dmaRead != 0 {
		prot |= unix.PROT_READ
	}
	if r.flags&dmaWrite != 0 {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(fd, int64(r.offset), int(r.size), prot, unix.MAP_SHARED)
}

// remove withdraws a range that was mapped as it is. One that is not there is none
// to withdraw; part of one cannot be withdrawn.
func (m *Memory) remove(r dmaUnmap) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.flags&unmapAll != 0 {
		if r.address != 0 || r.size != 0 {
			return syscall.EINVAL
		}
		return m.clear()
	}
	if r.flags != 0 || r.size == 0 || r.address+r.size < r.address {
		return syscall.EINVAL
	}
	end := r.address + r.size
	var err error
	for _, v := range m.mappings {
		if v.addr < end && v.end() > r.address && (v.addr < r.address || v.end() > end) {
			return syscall.EINVAL
		}
	}
	m.mappings = slices.DeleteFunc(m.mappings, func(v mapping) bool {
		inside := v.addr >= r.address && v.end() <= end
		if inside {
			err = cmp.Or(err, m.unmap(v))
		}
		return inside
	})
	return err
}

func (m *Memory) clear() (err error) {
	for _, v := range m.mappings {
		err = cmp.Or(err, m.unmap(v))
	}
	m.mappings = nil
	return err
}

func (m *Memory) unmap(v mapping) error {
	if v.mem == nil {
		return nil
	}
	m.mapped -= v.size
	return unix.Munmap(v.mem)
}

// close withdraws everything.
func (m *Memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clear()
}

// piece is the part of [addr, addr+n) at its start that lies in one mapping; nil if
// the device may not access it so.
func (m *Memory) piece(addr, n uint64, write bool) []byte {
	at, found := slices.BinarySearchFunc(m.mappings, addr, func(o mapping, addr uint64) int { return cmp.Compare(o.addr, addr) })
	if !found {
		at--
	}
	if at < 0 {
		return nil
	}
	v := &m.mappings[at]
	off := addr - v.addr
	if off >= v.size || v.mem == nil || write && !v.write || !write && !v.read {
		return nil
	}
	return v.mem[off : off+min(n, v.size-off)]
}

// Read copies guest memory at addr to p. After an error, which wraps
// syscall.EFAULT, p holds an unspecified part of it.
func (m *Memory) Read(addr uint64, p []byte) error {
	return m.each(addr, uint64(len(p)), false, func(b []byte) { p = p[copy(p, b):] })
}

// Write copies p to guest memory at addr. After an error, which wraps
// syscall.EFAULT, an unspecified part of it was copied.
func (m *Memory) Write(addr uint64, p []byte) error {
	return m.each(addr, uint64(len(p)), true, func(b []byte) { p = p[copy(b, p):] })
}

// each calls f with the pieces of [addr, addr+n) in order.
func (m *Memory) each(addr, n uint64, write bool, f func(b []byte)) (err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for at, left := addr, n; left > 0; {
		b := m.piece(at, left, write)
		if b == nil || !guarded(func() { f(b) }) {
			return fmt.Errorf("guest memory at %#x, %d bytes: %w", addr, n, syscall.EFAULT)
		}
		at, left = at+uint64(len(b)), left-uint64(len(b))
	}
	return nil
}

// guarded runs an access to shared memory, whose owner may have truncated the file
// behind it: false if it faulted.
func guarded(access func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	access()
	return true
}

// word runs f on the aligned word of size bytes at addr, if the device may access it.
func (m *Memory) word(addr, size uint64, write bool, f func(b []byte)) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if addr%size != 0 {
		return false
	}
	b := m.piece(addr, size, write)
	if uint64(len(b)) < size || hostmem.AddrOf(b)%size != 0 {
		return false
	}
	// The race detector carries atomic accesses out in code that a fault does not
	// come back from, so a fault is to happen before.
	return guarded(func() { probe(b); f(b) })
}

//go:noinline
func probe(b []byte) byte { return b[0] }

// Load32 loads the aligned word at addr, in memory order, as sync/atomic does.
func (m *Memory) Load32(addr uint64) (v uint32, ok bool) {
	ok = m.word(addr, 4, false, func(b []byte) { v = atomic.LoadUint32(hostmem.Word32(b)) })
	return v, ok
}

// Store32 stores the aligned word at addr, in memory order, as sync/atomic does: what
// was written before is seen by who sees the word.
func (m *Memory) Store32(addr uint64, v uint32) bool {
	return m.word(addr, 4, true, func(b []byte) { atomic.StoreUint32(hostmem.Word32(b), v) })
}

// CompareSwap64 stores swap in the aligned word at addr if it holds compare, and
// returns what it held. Words are numbers of this machine.
func (m *Memory) CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool) {
	ok = m.word(addr, 8, true, func(b []byte) {
		w := hostmem.Word64(b)
		for {
			if old = atomic.LoadUint64(w); old != compare || atomic.CompareAndSwapUint64(w, old, swap) {
				return
			}
		}
	})
	return old, ok
}

// Add64 adds n to the aligned word at addr and returns what it held.
func (m *Memory) Add64(addr, n uint64) (old uint64, ok bool) {
	ok = m.word(addr, 8, true, func(b []byte) { old = atomic.AddUint64(hostmem.Word64(b), n) - n })
	return old, ok
}

// Pin reports whether all of [addr, addr+n) is shared, for writing too if write. The
// client may withdraw it any time.
func (m *Memory) Pin(addr, n uint64, write bool) bool {
	if addr+n < addr {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for n > 0 {
		b := m.piece(addr, n, false)
		if b == nil || write && m.piece(addr, 1, true) == nil {
			return false
		}
		addr, n = addr+uint64(len(b)), n-uint64(len(b))
	}
	return true
}
