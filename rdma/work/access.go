package work

import (
	"errors"
	"strconv"

	"github.com/farwire/farwire/rdma/verbs"
)

// ErrAccess is returned for an Access that is none of the constants.
var ErrAccess = errors.New("unknown access")

// Access is what may be done to a region: by peers, through its remote key. The
// NIC itself may always write a region, for receives and reads. A queue pair is
// connected with an Access too, which bounds what its peer may do to any region.
type Access uint8

const (
	// Local grants peers nothing.
	Local Access = iota
	// RemoteWrite lets peers write. Where the hardware can, the writes of a
	// message may become visible in any order, but all of them before a
	// completion that follows them.
	RemoteWrite
	// RemoteReadWrite lets peers read, write and, if the NIC can, do
	// atomic operations; writes become visible in order.
	RemoteReadWrite
)

// String is the access in words.
func (a Access) String() string {
	switch a {
	case Local:
		return "local"
	case RemoteWrite:
		return "remote write"
	case RemoteReadWrite:
		return "remote read and write"
	}
	return "Access(" + strconv.Itoa(int(a)) + ")"
}

// Valid reports whether a is one of the constants.
func (a Access) Valid() bool { return a <= RemoteReadWrite }

// Memory is the access flags of a memory region.
func (a Access) Memory() verbs.Access {
	switch a {
	case RemoteWrite:
		return verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRelaxedOrdering
	case RemoteReadWrite:
		return verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return verbs.AccessLocalWrite
}

// Peer is the access flags of a queue pair whose peer may do a.
func (a Access) Peer() verbs.Access {
	switch a {
	case RemoteWrite:
		return verbs.AccessRemoteWrite
	case RemoteReadWrite:
		return verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return 0
}
