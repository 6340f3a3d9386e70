package nic

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// How a queue pair retries: codes of the InfiniBand specification, which
// verbs.QPAttr explains.
const (
	timeoutInfiniBand = 18 // 1.07 s
	timeoutEthernet   = 14 // 67 ms
	rnrForEver        = 7
	rnrTimer          = 12 // 0.64 ms
	hopLimit          = 64 // on InfiniBand; on Ethernet the kernel's routes decide
)

// MaxReads is how many reads and atomics of a queue pair this library asks for at
// most: what ConnectX NICs usually have, so that peers agree without asking.
const MaxReads = 16

// Pair is the states of a queue pair, which the kernel knows by Handle. The driver
// makes it, with the exported fields set, and destroys the queue pair.
type Pair struct {
	Port      *Port
	Handle    uint32
	Address   Address // of the port, when the queue pair was made
	Endpoint  verbs.Endpoint
	Reads     int   // reads and atomics that run at once
	PeerReads int   // the same of the peer
	Retries   uint8 // of a request that is not acknowledged: 0 to 7

	// Allow sets why nothing may be posted; nil is that it may. No post is under way
	// when it returns.
	Allow func(error)

	control sync.Mutex // one change of state at a time; taken before what Allow takes
	state   state
}

// state is what a queue pair has been through:
//
//	created → connected → destroyed
//	    └────────────────────┘
type state uint8

const (
	created state = iota
	connected
	destroyed
)

// Endpoint is what a peer connects to the queue pair number with. It starts at a
// random packet sequence number.
func (a Address) Endpoint(number uint32) verbs.Endpoint {
	return verbs.Endpoint{QPN: number, PSN: randomPSN(), LinkLayer: a.LinkLayer, LID: a.LID, GID: a.GID, MTU: a.MTU}
}

// randomPSN is a packet sequence number of 24 bits that a stranger cannot guess.
func randomPSN() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint32(b[:]) & verbs.MaxPSN
}

// Connect connects the queue pair to peer's, at the smaller of both ports' MTUs,
// and makes it ready to send. The peer may do a through it.
func (p *Pair) Connect(a work.Access, peer verbs.Endpoint) error {
	p.control.Lock()
	defer p.control.Unlock()
	switch {
	case p.state == connected:
		return work.ErrConnected
	case p.state == destroyed:
		return work.ErrDestroyed
	case !a.Valid():
		return work.ErrAccess
	}
	if err := p.accepts(peer); err != nil {
		return fmt.Errorf("connect queue pair: %w", err)
	}
	if err := p.toReady(a, peer); err != nil {
		// Back to where it was, for another try.
		reset := p.Port.dev.ModifyQP(p.Handle, verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState)
		return fmt.Errorf("connect queue pair: %w", errors.Join(err, reset))
	}
	p.state = connected
	p.Allow(nil)
	return nil
}

// accepts is an error if peer cannot be reached from this port.
func (p *Pair) accepts(peer verbs.Endpoint) error {
	if err := peer.Validate(); err != nil {
		return err
	}
	switch {
	case peer.LinkLayer != p.Address.LinkLayer:
		return fmt.Errorf("%w: its link layer is %v, this port's %v", verbs.ErrInvalidEndpoint, peer.LinkLayer, p.Address.LinkLayer)
	case peer.LinkLayer == verbs.LinkEthernet && peer.GID.IsV4() != p.Address.GID.IsV4():
		return fmt.Errorf("%w: %v is not of the IP version of %v", verbs.ErrInvalidEndpoint, peer.GID, p.Address.GID)
	case p.Address.Global && peer.GID.IsZero():
		return fmt.Errorf("%w: no GID", verbs.ErrInvalidEndpoint)
	}
	return nil
}

// toReady walks the states RESET, INIT, RTR and RTS.
func (p *Pair) toReady(a work.Access, peer verbs.Endpoint) error {
	peerReads := 0
	if a == work.RemoteReadWrite {
		peerReads = p.PeerReads
	}
	timeout := uint8(timeoutEthernet)
	if p.Address.LinkLayer == verbs.LinkInfiniBand {
		timeout = timeoutInfiniBand
	}
	init := verbs.QPAttr{State: verbs.StateInit, Access: a.Peer(), Port: p.Port.Number()}
	if err := p.Port.dev.ModifyQP(p.Handle, init, verbs.MaskResetToInit); err != nil {
		return err
	}
	receive := verbs.QPAttr{
		State: verbs.StateRTR, Path: p.path(peer), MTU: min(p.Endpoint.MTU, peer.MTU),
		PeerQPN: peer.QPN, RecvPSN: peer.PSN, MinRNRTimer: rnrTimer, PeerReads: uint8(peerReads),
	}
	if err := p.Port.dev.ModifyQP(p.Handle, receive, verbs.MaskInitToRTR); err != nil {
		return err
	}
	send := verbs.QPAttr{
		State: verbs.StateRTS, SendPSN: p.Endpoint.PSN, Timeout: timeout,
		Retries: p.Retries, RNRRetries: rnrForEver, Reads: uint8(p.Reads),
	}
	return p.Port.dev.ModifyQP(p.Handle, send, verbs.MaskRTRToRTS)
}

// path is the way to the peer.
func (p *Pair) path(peer verbs.Endpoint) verbs.Path {
	path := verbs.Path{LID: peer.LID, Port: p.Port.Number()}
	if p.Address.LinkLayer == verbs.LinkEthernet {
		path.LID = 0
	}
	if p.Address.Global {
		path.Global, path.GID, path.SGIDIndex, path.HopLimit = true, peer.GID, uint8(p.Address.GIDIndex), hopLimit
	}
	return path
}

// Fail moves the queue pair to the error state.
func (p *Pair) Fail() error {
	p.control.Lock()
	defer p.control.Unlock()
	switch p.state {
	case created:
		return work.ErrNotConnected
	case destroyed:
		return work.ErrDestroyed
	}
	if err := p.Port.dev.ModifyQP(p.Handle, verbs.QPAttr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		return fmt.Errorf("fail queue pair: %w", err)
	}
	return nil
}

// State asks the kernel for the queue pair's state.
func (p *Pair) State() (verbs.QPState, error) {
	p.control.Lock()
	defer p.control.Unlock()
	if p.state == destroyed {
		return 0, work.ErrDestroyed
	}
	a, err := p.Port.dev.QueryQP(p.Handle, verbs.MaskState)
	return a.State, err
}

// Destroy calls destroy, which destroys the kernel's queue pair, the first time. No
// post is under way then, and none is possible any more. Later calls do nothing and
// return nil.
func (p *Pair) Destroy(destroy func() error) error {
	p.control.Lock()
	defer p.control.Unlock()
	if p.state == destroyed {
		return nil
	}
	p.state = destroyed
	p.Allow(work.ErrDestroyed)
	return destroy()
}
