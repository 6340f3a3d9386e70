//go:build unix

package hostmem

import "golang.org/x/sys/unix"

func mapPages(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if err := keepFromChildren(b); err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return b, nil
}

func unmapPages(b []byte) error { return unix.Munmap(b) }
