package verbs

import (
	"errors"
	"fmt"
	"strings"
)

// Access is a set of access rights, of a memory region or of a queue pair
// (ib_user_ioctl_verbs.h, enum ib_uverbs_access_flags). Reading locally is
// always allowed.
type Access uint32

// The rights. Remote writes and atomics need AccessLocalWrite on a memory region.
const (
	AccessLocalWrite      Access = 1 << 0  // the NIC may write (receives, read responses)
	AccessRemoteWrite     Access = 1 << 1  // peers may write
	AccessRemoteRead      Access = 1 << 2  // peers may read
	AccessRemoteAtomic    Access = 1 << 3  // peers may do atomic operations
	AccessMWBind          Access = 1 << 4  // memory windows may be bound
	AccessZeroBased       Access = 1 << 5  // addresses start at 0
	AccessOnDemand        Access = 1 << 6  // pages are not pinned
	AccessHugeTLB         Access = 1 << 7  // pages are huge
	AccessRelaxedOrdering Access = 1 << 20 // writes may be seen out of order; a hint
)

// accessOptional are the bits a kernel may be asked to ignore.
const accessOptional Access = 0x3ff00000

// Validate reports whether a memory region can have the rights a.
func (a Access) Validate() error {
	if a&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && a&AccessLocalWrite == 0 {
		return errors.New("access: remote write and atomic need local write")
	}
	return nil
}

var accessNames = []string{"local-write", "remote-write", "remote-read", "remote-atomic",
	"mw-bind", "zero-based", "on-demand", "hugetlb"}

// String returns the rights joined by "|", or "none".
func (a Access) String() string {
	var s []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			s = append(s, n)
			a &^= 1 << i
		}
	}
	if a&AccessRelaxedOrdering != 0 {
		s = append(s, "relaxed-ordering")
		a &^= AccessRelaxedOrdering
	}
	if a != 0 {
		s = append(s, fmt.Sprintf("%#x", uint32(a)))
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, "|")
}
