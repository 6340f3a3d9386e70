package softnic

import (
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
)

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
	return atomic.LoadUint32(hostmem.Word32(view(addr, 4))), true
}

func (ownMemory) Store32(addr uint64, v uint32) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	atomic.StoreUint32(hostmem.Word32(view(addr, 4)), v)
	return true
}

func (ownMemory) CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	w := hostmem.Word64(view(addr, 8))
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
	return atomic.AddUint64(hostmem.Word64(view(addr, 8)), n) - n, true
}

// view is a view for an atomic access. The race detector carries those out in
// code that a fault does not come back from, so it has the fault before.
func view(addr uint64, n int) []byte {
	b := hostmem.View(addr, n)
	if raceDetector {
		probe(b)
	}
	return b
}

//go:noinline
func probe(b []byte) byte { return b[0] }

// Pin touches every page, as pinning does, so that copy-on-write and demand
// paging are over before the NIC uses the memory.
func (ownMemory) Pin(addr, n uint64, write bool) (ok bool) {
	if !hostmem.Mapped(addr, n) {
		return false
	}
	if ok, known := populate(addr, n, write); known {
		return ok
	}
	return touch(addr, n, write)
}

// touch is Pin where the kernel does not do it. The word that is touched holds
// at least one byte of the range.
func touch(addr, n uint64, write bool) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&ok)
	page := uint64(hostmem.PageSize())
	for at, end := addr&^3, addr+n; at < end; at = (at + page) &^ (page - 1) {
		w := hostmem.Word32(view(at, 4))
		if write && !raceDetector {
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
