package region

import "github.com/farwire/farwire/rdma/work"

// Access is what may be done to a region: by peers, through its remote key. The
// NIC itself may always write a region, for receives and reads. A queue pair is
// connected with an Access too, which bounds what its peer may do to any region.
type Access = work.Access

const (
	// Local grants peers nothing.
	Local = work.Local
	// RemoteWrite lets peers write. Where the hardware can, the writes of a
	// message may become visible in any order, but all of them before a
	// completion that follows them.
	RemoteWrite = work.RemoteWrite
	// RemoteReadWrite lets peers read, write and, if the NIC can (mlx5.Limits), do
	// atomic operations; writes become visible in order.
	RemoteReadWrite = work.RemoteReadWrite
)
