// Package rxe opens devices of Soft-RoCE, the RoCE v2 that Linux has in software
// (rdma_rxe), on any network interface:
//
//	nic, err := rxe.Open("rxe0")
//	mr, err := rxe.Alloc(nic, work.Local, 4096)
//	done, err := rxe.NewQueue(nic, 256)
//	pair, err := rxe.NewPair(done, rxe.PairConfig{Sends: 128, Receives: 64})
//
// They are closed in the opposite order: queue pairs, completion queues and
// regions, the NIC. What is posted and what completes is in the words of package
// work, and means what it means on hardware.
//
// The kernel makes the rings and runs what is posted. Receives are posted and
// completions polled in shared memory alone; Ring and Arm are a system call each.
// Nothing allocates while data moves.
package rxe
