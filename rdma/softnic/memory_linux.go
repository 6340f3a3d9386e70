package softnic

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// mapDescriptor maps [offset, offset+length) of a descriptor. release unmaps.
func mapDescriptor(fd int, offset, length uint64, write bool) (addr uint64, release func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, nil, err
	}
	// Beyond the end of a file a mapping faults.
	if size, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil || uint64(size) < offset+length {
		return 0, nil, unix.EINVAL
	}
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	start := offset &^ uint64(hostmem.PageSize()-1)
	b, err := unix.Mmap(fd, int64(start), int(offset-start+length), prot, unix.MAP_SHARED)
	if err != nil {
		return 0, nil, err
	}
	return hostmem.AddrOf(b) + offset - start, func() { _ = unix.Munmap(b) }, nil
}

// populate has the kernel fault a range in, for writing or reading (Linux 5.14);
// known is false if it cannot tell.
func populate(addr, n uint64, write bool) (ok, known bool) {
	start := addr &^ uint64(pageSize()-1)
	pages := hostmem.View(start, int(addr+n-start))
	if write {
		if err := unix.Madvise(pages, unix.MADV_POPULATE_WRITE); !errors.Is(err, unix.EINVAL) {
			return err == nil, true
		}
		// An older kernel, or memory that may not be written.
	}
	err := unix.Madvise(pages, unix.MADV_POPULATE_READ)
	return err == nil && !write, !errors.Is(err, unix.EINVAL)
}
