package qp

import (
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// Connect connects the queue pair to the peer's, at the smaller of both ports'
// MTUs, and makes it ready to send. The peer may do a to this process's regions
// through it; a peer that only sends, or that is only written, read and sent to,
// needs region.Local. A request that the peer does not acknowledge is retried 7
// times, each after 1.07 s on InfiniBand or 67 ms on Ethernet, and its entry then
// fails with verbs.RetryExceeded.
//
// The peer may be the queue pair's own endpoint: it is then its own peer, and its
// writes and reads move bytes between regions of this process, through the NIC,
// which a must allow.
//
// Connect may block for a second while the kernel resolves the peer's address. If
// the kernel refuses, that is the error, and the queue pair can be connected
// again. It is ErrConnected or ErrDestroyed if it was connected or destroyed,
// region.ErrAccess if a is no access, and an error that matches
// verbs.ErrInvalidEndpoint for a peer that it cannot be connected to.
func (p *Pair) Connect(a region.Access, peer verbs.Endpoint) error { return p.control.Connect(a, peer) }

// Fail moves the queue pair to the error state: whatever is posted, now or later,
// completes with verbs.Flushed, entries that were not Signaled perhaps too. The
// peer's entries fail once their retries end. To drain it, post a signaled entry
// and a receive after Fail and poll until both have completed. It is
// ErrNotConnected or ErrDestroyed for a queue pair that is not connected.
func (p *Pair) Fail() error { return p.control.Fail() }

// State asks the kernel for the queue pair's state.
func (p *Pair) State() (verbs.QPState, error) { return p.control.State() }
