// Package mlx5 opens NVIDIA/Mellanox ConnectX NICs (the mlx5 family) for user
// space: one port, with its protection domain, doorbell pages and events.
//
// Memory regions, completion queues and queue pairs are made on an open NIC, by
// the packages region, cq and qp below this one:
//
//	nic, err := mlx5.Open("mlx5_0")
//	mr, err := region.Alloc(nic, region.Local, 4096)
//	done, err := cq.New(nic, 256)
//	pair, err := qp.New(done, qp.Config{Sends: 128, Receives: 64})
//
// They are closed in the opposite order: queue pairs, completion queues and
// regions, the NIC.
//
// The NIC may be hardware or the software NIC of package softnic: the code is
// the same, down to the bytes in the rings.
package mlx5
