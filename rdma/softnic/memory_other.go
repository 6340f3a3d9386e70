//go:build !linux

package softnic

import "syscall"

// mapDescriptor is for systems that have dma-bufs.
func mapDescriptor(int, uint64, uint64, bool) (addr uint64, release func(), err error) {
	return 0, nil, syscall.EOPNOTSUPP
}

func populate(uint64, uint64, bool) (ok, known bool) { return false, false }
