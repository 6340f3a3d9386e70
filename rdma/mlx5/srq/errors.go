package srq

import (
	"errors"

	"github.com/farwire/farwire/rdma/work"
)

// Errors of shared receive queues. Receive and ReceiveAll return these values themselves,
// work.ErrTooLong and work.ErrSegments for what a receive cannot hold, and work.ErrRange
// for a segment that is not within its region. Nothing has reached the NIC when they do.
var (
	// ErrRoom is returned for a receive that finds the queue full.
	ErrRoom = work.ErrRoom
	// ErrClosed is returned for a queue that was closed.
	ErrClosed = errors.New("shared receive queue is closed")
	// ErrBusy is returned by Close while queue pairs use the queue.
	ErrBusy = errors.New("shared receive queue is in use by queue pairs")
)
