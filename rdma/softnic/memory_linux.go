package softnic

import (
	"github.com/farwire/farwire/internal/hostmem"
	"golang.org/x/sys/unix"
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
