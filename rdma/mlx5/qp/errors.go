package qp

import "github.com/farwire/farwire/rdma/work"

// Errors of queue pairs. Post and Receive return these values themselves, and
// region.ErrRange for a segment that is not within its region. Nothing has
// reached the NIC when they do.
var (
	// ErrNotConnected is returned for a queue pair that Connect has not connected.
	ErrNotConnected = work.ErrNotConnected
	// ErrConnected is returned by Connect for a queue pair that was connected.
	ErrConnected = work.ErrConnected
	// ErrDestroyed is returned for a queue pair that Destroy has destroyed.
	ErrDestroyed = work.ErrDestroyed
	// ErrRoom is returned for an entry or a receive that finds its ring full.
	ErrRoom = work.ErrRoom
	// ErrNoReceives is returned for a receive of a queue pair that has no receive
	// ring, or takes those of a shared receive queue.
	ErrNoReceives = work.ErrNoReceives
	// ErrOp is returned for an entry whose Op is none of this package's.
	ErrOp = work.ErrOp
	// ErrEntry is returned for an entry with fields that its Op has no use for:
	// inline bytes to read into, inline bytes beside segments, or a solicited
	// event where the peer has no completion.
	ErrEntry = work.ErrEntry
	// ErrSegments is returned for more segments than the ring's entries hold.
	ErrSegments = work.ErrSegments
	// ErrInline is returned for more inline bytes than the ring's entries hold.
	ErrInline = work.ErrInline
	// ErrTooLong is returned for an entry that moves more bytes than a message
	// may have.
	ErrTooLong = work.ErrTooLong
	// ErrNoAtomics is returned for an atomic operation on a NIC that has none
	// (mlx5.Limits).
	ErrNoAtomics = work.ErrNoAtomics
	// ErrAtomic is returned for an atomic operation whose local memory is not one
	// segment of 8 bytes, or whose remote address is not a multiple of 8.
	ErrAtomic = work.ErrAtomic
)
