package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// keepFromChildren stops fork from sharing the pages copy-on-write: the first
// write after a fork could otherwise give the parent a new page while a device
// still uses the old one.
func keepFromChildren(b []byte) error { return unix.Madvise(b, unix.MADV_DONTFORK) }

// mapped asks mincore(2), which fails with ENOMEM on the first page that is not
// mapped. The residency it reports is not of interest.
func mapped(addr, n uintptr) bool {
	var residency [256]byte
	page := uintptr(pageSize)
	end := addr + n
	for addr &^= page - 1; addr < end; {
		chunk := min(end-addr, uintptr(len(residency))*page)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, addr, chunk, uintptr(unsafe.Pointer(&residency[0])))
		if errno == unix.EAGAIN {
			continue
		}
		if errno != 0 {
			return false
		}
		addr += chunk
	}
	return true
}
