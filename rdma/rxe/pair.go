package rxe

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// retries is how often a request that is not acknowledged is sent again: Soft-RoCE
// takes 7, the most there is, for ever (Linux rxe_comp.c).
const retries = 6

// Pair is a reliable-connected queue pair: a send ring and a receive ring, connected
// to one queue pair of a peer. Its methods are safe for concurrent use. Entries
// posted by several goroutines go into the ring in some order; Ring hands over all of
// them. Entries run in order, and their completions come in order. A message lands in
// the oldest receive the peer posted and has not filled; one that finds none is
// retried without end.
type Pair struct {
	nic     *NIC
	dev     *nic.Device
	id      uint64
	limits  PairLimits
	bounds  nic.Bounds
	queues  [2]*Queue // by work.Ring
	rooms   [2]uint32
	tracked *attached

	control nic.Pair // its lock is taken before send.mu and receive.mu
	send    sender
	receive receiver
}

// NewPair is an unconnected queue pair of done's NIC, whose completions go to done.
// It starts at a random packet sequence number.
//
// It is an error if a size of c is more than a queue pair of the NIC holds, which the
// error names, or the kernel refuses; and it wraps work.ErrQueueFull if the queue
// pairs of a completion queue would hold more than the completion queue.
func NewPair(done *Queue, c PairConfig) (*Pair, error) {
	p := &Pair{nic: done.nic, dev: done.dev, queues: [2]*Queue{done, c.ReceiveQueue}}
	if c.ReceiveQueue == nil {
		p.queues[work.Receives] = done
	}
	if err := p.make(c); err != nil {
		return nil, fmt.Errorf("queue pair: %w", err)
	}
	return p, nil
}

func (p *Pair) make(c PairConfig) error {
	if p.queues[work.Receives].nic != p.nic {
		return errors.New("completion queues are of two NICs")
	}
	caps, err := c.caps(p.nic.limits)
	if err != nil {
		return err
	}
	address, err := p.nic.port.Address()
	if err != nil {
		return err
	}
	if err := p.dev.Hold(p); err != nil {
		return err
	}
	p.id = p.dev.AddQP()
	if err := p.attach(c, caps, address); err != nil {
		p.dev.Remove(p.id)
		p.dev.Drop(p)
		return err
	}
	return nil
}

// attach counts the rooms and makes the queue pair, or undoes it.
func (p *Pair) attach(c PairConfig, caps verbs.QPCap, address nic.Address) error {
	p.rooms = [2]uint32{uint32(c.Sends), uint32(c.Receives)}
	for r, q := range p.queues {
		if err := q.attach(p.rooms[r]); err != nil {
			p.detach(r)
			return err
		}
	}
	if err := p.create(c, caps, address); err != nil {
		p.detach(len(p.queues))
		return err
	}
	return nil
}

// detach gives the rooms of the first n rings back.
func (p *Pair) detach(n int) {
	for r, q := range p.queues[:n] {
		q.detach(p.id, p.rooms[r])
	}
}

func (p *Pair) create(c PairConfig, caps verbs.QPCap, address nic.Address) error {
	ctx := p.dev.Context()
	var response rxeabi.CreateQPResp
	made, err := ctx.CreateQP(verbs.CreateQP{
		UserHandle: p.id, PD: p.dev.Domain(), Type: verbs.RC, Cap: caps,
		SendCQ: p.queues[work.Sends].handle, RecvCQ: p.queues[work.Receives].handle,
		Out: rxeabi.Bytes(&response),
	})
	if err != nil {
		return err
	}
	if err := p.mapRings(response, caps); err != nil {
		_, destroy := ctx.DestroyQP(made.Handle)
		return errors.Join(err, destroy)
	}
	p.limits = c.limits(p.nic.limits, made.Cap, p.send.ring, p.receive.ring)
	p.bounds = p.limits.bounds()
	p.control = nic.Pair{
		Port: p.nic.port, Handle: made.Handle, Address: address, Endpoint: address.Endpoint(made.QPN),
		Reads: p.nic.limits.Reads, PeerReads: p.nic.limits.PeerReads, Retries: retries, Allow: p.allow,
	}
	p.open(made.QPN)
	p.dev.NumberQP(p.id, made.QPN)
	return nil
}

// mapRings maps both rings, or none.
func (p *Pair) mapRings(at rxeabi.CreateQPResp, caps verbs.QPCap) (err error) {
	segment := rxeabi.Size[rxeabi.Segment]()
	size := rxeabi.Size[rxeabi.SendEntry]() + max(int(caps.SendSGE)*segment, int(caps.Inline))
	if p.send.ring, err = mapRing(p.dev.Context(), at.Sends, size); err != nil {
		return err
	}
	size = rxeabi.Size[rxeabi.ReceiveEntry]() + int(caps.RecvSGE)*segment
	if p.receive.ring, err = mapRing(p.dev.Context(), at.Receives, size); err != nil {
		return errors.Join(err, p.send.ring.unmap())
	}
	return nil
}

// open sets the rings up. Nothing may be posted yet.
func (p *Pair) open(number uint32) {
	p.tracked = &attached{ledger: ledger.Pair{QPN: number}}
	l := &p.tracked.ledger
	l.Sends = ledger.NewSends(p.send.ring.slots(), uint32(p.limits.Sends))
	p.send.err, p.send.ledger, p.send.bounds, p.send.pair = work.ErrNotConnected, l.Sends, &p.bounds, p.id
	if p.limits.Receives > 0 {
		l.Receives = ledger.NewReceives(p.receive.ring.slots(), uint32(p.limits.Receives))
	}
	p.receive.err, p.receive.ledger, p.receive.bounds, p.receive.pair = work.ErrNotConnected, l.Receives, &p.bounds, p.id
	for _, q := range p.queues {
		q.enter(p.id, p.tracked)
	}
}

// Number is the queue pair's number, which completions name.
func (p *Pair) Number() uint32 { return p.control.Endpoint.QPN }

// Endpoint is what a peer's queue pair connects to this one with. It is plain
// data, which a program sends to the peer by any means.
func (p *Pair) Endpoint() verbs.Endpoint { return p.control.Endpoint }

// Limits is what the queue pair holds.
func (p *Pair) Limits() PairLimits { return p.limits }

// Room is how many entries or receives the queue pair takes before the ring r is
// full. An entry's slot is free once a completion of it, or of an entry after it,
// has been polled, and a receive's once its completion has been polled. A
// completion of an unexpected kind frees no slot.
func (p *Pair) Room(r work.Ring) int {
	switch {
	case r == work.Sends:
		p.send.mu.Lock()
		defer p.send.mu.Unlock()
		return int(p.send.ledger.Room())
	case r == work.Receives && p.receive.ledger != nil:
		return int(p.receive.ledger.Room())
	}
	return 0
}

// Connect connects the queue pair to the peer's, at the smaller of both ports' MTUs,
// and makes it ready to send. The peer may do a to this process's regions through it;
// a peer that only sends, or that is only written, read and sent to, needs
// work.Local. A request that the peer does not acknowledge is retried 6 times, each
// after 67 ms, and its entry then fails with verbs.RetryExceeded.
//
// The peer may be the queue pair's own endpoint, or another one of the same device.
//
// Connect may block for a second while the kernel resolves the peer's address. If
// the kernel refuses, that is the error, and the queue pair can be connected
// again. It is work.ErrConnected or work.ErrDestroyed if it was connected or
// destroyed, work.ErrAccess if a is no access, and an error that matches
// verbs.ErrInvalidEndpoint for a peer that it cannot be connected to.
func (p *Pair) Connect(a work.Access, peer verbs.Endpoint) error { return p.control.Connect(a, peer) }

// Fail moves the queue pair to the error state: whatever is posted, now or later,
// completes with verbs.Flushed, entries that were not Signaled perhaps too. The
// peer's entries fail once their retries end. To drain it, post a signaled entry
// and a receive after Fail and poll until both have completed. It is
// work.ErrNotConnected or work.ErrDestroyed for a queue pair that is not connected.
func (p *Pair) Fail() error {
	if err := p.control.Fail(); err != nil {
		return err
	}
	p.tracked.failed.Store(true)
	return p.control.Fail() // once more, for what was posted meanwhile: see flush
}

// flush makes the kernel flush what was just posted, if the queue pair is in error:
// of its own accord it looks at no receive then, and before Linux 6.12 at no entry.
func (p *Pair) flush() {
	if p.tracked.failed.Load() {
		_ = p.control.Fail() // a queue pair that is destroyed meanwhile has nothing to flush
	}
}

// State asks the kernel for the queue pair's state.
func (p *Pair) State() (verbs.QPState, error) { return p.control.State() }

// Destroy destroys the queue pair. The kernel runs none of its entries, reads and
// writes no memory for it, and its completions that were not polled are gone, once
// Destroy returns nil. The entries of its peer's queue pair fail once their retries
// end.
//
// If the kernel refuses, that is the error. The queue pair then counts as destroyed
// all the same, but the kernel's may still complete its entries, which keep their room
// in the completion queue until the NIC closes. Later calls do nothing and return nil.
func (p *Pair) Destroy() error { return p.control.Destroy(p.destroy) }

func (p *Pair) destroy() error {
	defer p.dev.Drop(p)
	_, err := p.dev.Context().DestroyQP(p.control.Handle)
	p.dev.Remove(p.id)
	if err = p.dev.IgnoreGone(err); err != nil {
		for _, q := range p.queues {
			q.abandon(p.id)
		}
		p.dev.Keep(nil, p)
	} else {
		p.detach(len(p.queues))
	}
	if err = errors.Join(err, p.send.ring.unmap(), p.receive.ring.unmap()); err != nil {
		return fmt.Errorf("destroy queue pair: %w", err)
	}
	return nil
}

// allow sets why nothing may be posted; nil is that it may. No post is under way
// when it returns.
func (p *Pair) allow(err error) {
	p.send.mu.Lock()
	p.send.err = err
	p.send.mu.Unlock()
	p.receive.mu.Lock()
	p.receive.err = err
	p.receive.mu.Unlock()
}
