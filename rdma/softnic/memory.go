package softnic

import (
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
)

// memory is the address space of whoever opened a file: queues, doorbell
// records, registered buffers and the buffers of commands are reached through
// it alone. Every method fails, by an error or by false, where the address is
// not mapped or may not be accessed so. Words are in memory order.
type memory interface {
	uapi.Memory

	// Load32 and Store32 are single accesses to an aligned word, ordered as
	// those of sync/atomic.
	Load32(addr uint64) (uint32, bool)
	Store32(addr uint64, v uint32) bool

	// CompareSwap64 and Add64 are atomic with respect to this memory's other
	// users; they return the value before, a number of this machine.
	CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool)
	Add64(addr, n uint64) (old uint64, ok bool)

	// Pin reports whether all of the range may be read, and written if write.
	Pin(addr, n uint64, write bool) bool
}

// ownMemory is the memory of this process. A fault at an address that was
// unmapped behind the NIC's back ends as false, not as the end of the process.
type ownMemory struct{}

func (ownMemory) Read(addr uint64, p []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverError(&err)
	copy(p, hostmem.View(addr, len(p)))
	return nil
}

func (ownMemory) Write(addr uint64, p []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverError(&err)
	copy(hostmem.View(addr, len(p)), p)
	return nil
}

func (ownMemory) Load32(addr uint64) (v uint32, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	return atomic.LoadUint32(hostmem.Word32(hostmem.View(addr, 4))), true
}

func (ownMemory) Store32(addr uint64, v uint32) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	atomic.StoreUint32(hostmem.Word32(hostmem.View(addr, 4)), v)
	return true
}

func (ownMemory) CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	w := hostmem.Word64(hostmem.View(addr, 8))
	for {
		old = atomic.LoadUint64(w)
		if old != compare || atomic.CompareAndSwapUint64(w, old, swap) {
			return old, true
		}
	}
}

func (ownMemory) Add64(addr, n uint64) (old uint64, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	return atomic.AddUint64(hostmem.Word64(hostmem.View(addr, 8)), n) - n, true
}

// Pin touches every page, as pinning does, so that copy-on-write and demand
// paging are over before the NIC uses the memory. The word that is touched
// holds at least one byte of the range.
func (ownMemory) Pin(addr, n uint64, write bool) (ok bool) {
	if !hostmem.Mapped(addr, n) {
		return false
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	page := uint64(hostmem.PageSize())
	for at, end := addr&^3, addr+n; at < end; at = (at + page) &^ (page - 1) {
		w := hostmem.Word32(hostmem.View(at, 4))
		if write {
			atomic.AddUint32(w, 0)
		} else {
			atomic.LoadUint32(w)
		}
	}
	return true
}

func recoverError(err *error) {
	if recover() != nil {
		*err = syscall.EFAULT
	}
}

// recoverFault makes a fault, or an address no view can be had of, a false. It
// is only deferred by functions that do nothing but access memory.
func recoverFault(ok *bool) {
	if recover() != nil {
		*ok = false
	}
}
