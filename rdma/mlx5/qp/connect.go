package qp

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// How a queue pair retries: codes of the InfiniBand specification, which
// verbs.QPAttr explains.
const (
	retries           = 7
	timeoutInfiniBand = 18 // 1.07 s
	timeoutEthernet   = 14 // 67 ms
	rnrForEver        = 7
	rnrTimer          = 12 // 0.64 ms
	hopLimit          = 64 // on InfiniBand; on Ethernet the kernel's routes decide
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
func (p *Pair) Connect(a region.Access, peer verbs.Endpoint) error {
	p.control.Lock()
	defer p.control.Unlock()
	switch {
	case p.state == connected:
		return ErrConnected
	case p.state == destroyed:
		return ErrDestroyed
	case !a.Valid():
		return region.ErrAccess
	}
	if err := p.accepts(peer); err != nil {
		return fmt.Errorf("connect queue pair: %w", err)
	}
	if err := p.toReady(a, peer); err != nil {
		// Back to where it was, for another try.
		reset := p.dev.ModifyQP(p.kernel, verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState)
		return fmt.Errorf("connect queue pair: %w", errors.Join(err, reset))
	}
	p.state = connected
	p.allow(nil)
	return nil
}

// accepts is an error if peer cannot be reached from this port.
func (p *Pair) accepts(peer verbs.Endpoint) error {
	if err := peer.Validate(); err != nil {
		return err
	}
	switch {
	case peer.LinkLayer != p.address.LinkLayer:
		return fmt.Errorf("%w: its link layer is %v, this port's %v", verbs.ErrInvalidEndpoint, peer.LinkLayer, p.address.LinkLayer)
	case peer.LinkLayer == verbs.LinkEthernet && peer.GID.IsV4() != p.address.GID.IsV4():
		return fmt.Errorf("%w: %v is not of the IP version of %v", verbs.ErrInvalidEndpoint, peer.GID, p.address.GID)
	case p.address.Global && peer.GID.IsZero():
		return fmt.Errorf("%w: no GID", verbs.ErrInvalidEndpoint)
	}
	return nil
}

// toReady walks the states RESET, INIT, RTR and RTS.
func (p *Pair) toReady(a region.Access, peer verbs.Endpoint) error {
	limits := p.nic.Limits()
	peerReads := 0
	if a == region.RemoteReadWrite {
		peerReads = limits.PeerReads
	}
	timeout := uint8(timeoutEthernet)
	if p.address.LinkLayer == verbs.LinkInfiniBand {
		timeout = timeoutInfiniBand
	}
	init := verbs.QPAttr{State: verbs.StateInit, Access: a.Peer(), Port: p.nic.PortNumber()}
	if err := p.dev.ModifyQP(p.kernel, init, verbs.MaskResetToInit); err != nil {
		return err
	}
	receive := verbs.QPAttr{
		State: verbs.StateRTR, Path: p.path(peer), MTU: min(p.endpoint.MTU, peer.MTU),
		PeerQPN: peer.QPN, RecvPSN: peer.PSN, MinRNRTimer: rnrTimer, PeerReads: uint8(peerReads),
	}
	if err := p.dev.ModifyQP(p.kernel, receive, verbs.MaskInitToRTR); err != nil {
		return err
	}
	send := verbs.QPAttr{
		State: verbs.StateRTS, SendPSN: p.endpoint.PSN, Timeout: timeout,
		Retries: retries, RNRRetries: rnrForEver, Reads: uint8(limits.Reads),
	}
	return p.dev.ModifyQP(p.kernel, send, verbs.MaskRTRToRTS)
}

// path is the way to the peer.
func (p *Pair) path(peer verbs.Endpoint) verbs.Path {
	path := verbs.Path{LID: peer.LID, Port: p.nic.PortNumber()}
	if p.address.LinkLayer == verbs.LinkEthernet {
		path.LID = 0
	}
	if p.address.Global {
		path.Global, path.GID, path.SGIDIndex, path.HopLimit = true, peer.GID, uint8(p.address.GIDIndex), hopLimit
	}
	return path
}

// Fail moves the queue pair to the error state: whatever is posted, now or later,
// completes with verbs.Flushed, entries that were not Signaled perhaps too. The
// peer's entries fail once their retries end. To drain it, post a signaled entry
// and a receive after Fail and poll until both have completed. It is
// ErrNotConnected or ErrDestroyed for a queue pair that is not connected.
func (p *Pair) Fail() error {
	p.control.Lock()
	defer p.control.Unlock()
	switch p.state {
	case created:
		return ErrNotConnected
	case destroyed:
		return ErrDestroyed
	}
	if err := p.dev.ModifyQP(p.kernel, verbs.QPAttr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		return fmt.Errorf("fail queue pair: %w", err)
	}
	return nil
}

// State asks the kernel for the queue pair's state.
func (p *Pair) State() (verbs.QPState, error) {
	p.control.Lock()
	defer p.control.Unlock()
	if p.state == destroyed {
		return 0, ErrDestroyed
	}
	a, err := p.dev.QueryQP(p.kernel, verbs.MaskState)
	return a.State, err
}
