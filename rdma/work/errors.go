package work

import "errors"

// Errors of queue pairs. Those that post return these values themselves, and
// ErrRange. Nothing has reached the NIC when they do.
var (
	// ErrNotConnected is returned for a queue pair that Connect has not connected.
	ErrNotConnected = errors.New("queue pair is not connected")
	// ErrConnected is returned by Connect for a queue pair that was connected.
	ErrConnected = errors.New("queue pair was connected already")
	// ErrDestroyed is returned for a queue pair that Destroy has destroyed.
	ErrDestroyed = errors.New("queue pair is destroyed")
	// ErrRoom is returned for an entry or a receive that finds its ring full.
	ErrRoom = errors.New("ring is full")
	// ErrNoReceives is returned for a receive of a queue pair that has no receive
	// ring.
	ErrNoReceives = errors.New("queue pair has no receive ring")
	// ErrOp is returned for an entry whose Op is none of the constants.
	ErrOp = errors.New("unknown operation")
	// ErrEntry is returned for an entry with fields that its Op has no use for:
	// inline bytes to read into, inline bytes beside segments, or a solicited
	// event where the peer has no completion.
	ErrEntry = errors.New("entry does not fit its operation")
	// ErrSegments is returned for more segments than the ring's entries hold.
	ErrSegments = errors.New("too many segments")
	// ErrInline is returned for more inline bytes than the ring's entries hold.
	ErrInline = errors.New("too many inline bytes")
	// ErrTooLong is returned for an entry that moves more bytes than a message
	// may have.
	ErrTooLong = errors.New("longer than a message may be")
	// ErrNoAtomics is returned for an atomic operation on a NIC that has none.
	ErrNoAtomics = errors.New("NIC has no atomic operations")
	// ErrAtomic is returned for an atomic operation whose local memory is not one
	// segment of 8 bytes, or whose remote address is not a multiple of 8.
	ErrAtomic = errors.New("atomic operand is not 8 aligned bytes")
)

// Errors of completion queues.
var (
	// ErrQueueClosed is returned by methods of a queue that was closed.
	ErrQueueClosed = errors.New("completion queue is closed")
	// ErrQueueFull is returned for a queue pair whose rooms, with those of the queue
	// pairs already there, are more than the queue holds.
	ErrQueueFull = errors.New("completion queue has no room for the queue pair")
	// ErrQueueBusy is returned by Close while queue pairs use the queue.
	ErrQueueBusy = errors.New("completion queue is in use by queue pairs")
	// ErrOverrun says that the NIC gave the queue up. What its queue pairs had
	// posted is lost; they and the queue are to be destroyed.
	ErrOverrun = errors.New("completion queue failed")
)
