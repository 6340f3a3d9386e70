package hostmem

import (
	"fmt"
	"os"
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

// Share maps the first n bytes, n > 0, of a file that other processes have mapped too, or
// will: what one stores all see. A forked child does not get the mapping. The file must
// have so many bytes for as long as the mapping lives, and may be closed.
func Share(file *os.File, n int) (*Memory, error) {
	if n <= 0 || roundUp(n) < n {
		return nil, fmt.Errorf("share memory: %d bytes is not a size", n)
	}
	size := roundUp(n)
	mapping, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("share memory of %d bytes: %w", n, err)
	}
	if err := keepFromChildren(mapping); err != nil {
		_ = unix.Munmap(mapping)
		return nil, fmt.Errorf("share memory of %d bytes: %w", n, err)
	}
	return newMemory(mapping, n), nil
}
