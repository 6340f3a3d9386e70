package qp

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/mlx5/srq"
	"github.com/farwire/farwire/rdma/verbs"
)

// retries is how often a request is sent again, the most there is.
const retries = 7

// Pair is a queue pair. Its methods are safe for concurrent use. Entries posted
// by several goroutines go into the ring in some order; Ring hands over all of
// them.
type Pair struct {
	nic    *mlx5.NIC
	dev    *device.Device
	kernel device.QP
	limits Limits
	bounds nic.Bounds

	record *device.Record
	mem    *hostmem.Memory
	ledger *ledger.Pair
	rings  [2]attached // by Ring
	srq    *srq.Queue  // nil if there is none

	control nic.Pair // its lock is taken before send.mu and receive.mu

	send    sender
	receive receiver
}

// attached is a completion queue that a ring's rooms are counted in.
type attached struct {
	queue *cq.Queue
	rooms ledger.Rooms
}

// New is an unconnected queue pair of done's NIC, whose completions go to done.
// It starts at a random packet sequence number. A queue pair with no receive ring
// takes no messages, so its peer only reads and writes this process's regions
// through it, unless it is made with a shared receive queue. Its entries may leave as many
// completions as that holds, together with the other queue pairs of both queues.
//
// It is an error if the rounded Sends or Receives, or another size of c, is more
// than a queue pair of the NIC holds or than 1<<15, which the error names; if the
// kernel refuses or the process cannot allocate the rings; and it wraps
// cq.ErrFull if the queue pairs of a completion queue, each counted at its
// rounded sends and receives, would hold more than the completion queue.
func New(done *cq.Queue, c Config) (*Pair, error) {
	p := &Pair{nic: done.NIC(), dev: done.NIC().Device()}
	if c.ReceiveQueue == nil {
		c.ReceiveQueue = done
	}
	if err := p.make(done, c); err != nil {
		return nil, fmt.Errorf("queue pair: %w", err)
	}
	return p, nil
}

func (p *Pair) make(done *cq.Queue, c Config) error {
	if c.ReceiveQueue.NIC() != p.nic {
		return errors.New("completion queues are of two NICs")
	}
	if c.SRQ != nil && c.SRQ.NIC() != p.nic {
		return errors.New("shared receive queue is of another NIC")
	}
	p.srq = c.SRQ
	g, l, err := c.plan(p.nic.Limits())
	if err != nil {
		return err
	}
	p.limits = l
	p.bounds = l.bounds()
	address, err := p.nic.Base().Address()
	if err != nil {
		return err
	}
	if err := p.dev.Hold(p); err != nil {
		return err
	}
	if err := p.attach(done, c.ReceiveQueue, g); err != nil {
		p.dev.Drop(p)
		return err
	}
	p.control = nic.Pair{
		Port: p.nic.Base(), Handle: p.kernel.Handle, Address: address, Endpoint: address.Endpoint(p.kernel.Number),
		Reads: p.nic.Limits().Reads, PeerReads: p.nic.Limits().PeerReads, Retries: retries, Allow: p.allow,
	}
	p.open(g)
	return nil
}

// attach counts the rooms and makes the queue pair, or undoes it.
func (p *Pair) attach(sends, receives *cq.Queue, g geometry) error {
	p.rings[Sends] = attached{sends, ledger.Rooms{N: uint32(p.limits.Sends)}}
	p.rings[Receives] = attached{receives, ledger.Rooms{N: uint32(p.limits.Receives)}}
	var shared *device.SRQ
	if p.srq != nil {
		l, kernel, err := p.srq.Attach()
		if err != nil {
			return err
		}
		shared = kernel
		p.rings[Receives].rooms = ledger.Rooms{N: l.Capacity(), Shared: l}
	}
	var handles [2]uint32
	for i, a := range p.rings {
		var err error
		if handles[i], err = a.queue.Attach(a.rooms); err != nil {
			p.detach(p.rings[:i])
			return err
		}
	}
	if err := p.create(handles, shared, g); err != nil {
		p.detach(p.rings[:])
		return err
	}
	return nil
}

// detach gives the rooms of rings back, and leaves the shared receive queue.
func (p *Pair) detach(rings []attached) {
	for _, a := range rings {
		a.queue.Detach(a.rooms)
	}
	if p.srq != nil {
		p.srq.Detach()
	}
}

func (p *Pair) create(handles [2]uint32, shared *device.SRQ, g geometry) (err error) {
	if p.record, err = p.dev.NewRecord(); err != nil {
		return err
	}
	if p.mem, err = p.dev.AllocRing(int(g.bytes())); err != nil {
		p.dev.FreeRecord(p.record)
		return err
	}
	p.ledger = &ledger.Pair{
		Sends:    ledger.NewSends(g.blocks, uint32(p.limits.Sends)),
		Receives: ledger.NewReceives(max(1, g.receives), g.receives),
		Shared:   p.rings[Receives].rooms.Shared,
	}
	p.kernel, err = p.dev.CreateQP(device.QPRequest{
		Buf: p.mem.Addr(), Bytes: uint64(g.bytes()), Record: p.record.Addr,
		Blocks: g.blocks, Receives: g.receives, Shift: g.shift,
		SendCQ: handles[Sends], ReceiveCQ: handles[Receives], SRQ: shared,
		Cap: p.limits.caps(), Ledger: p.ledger,
	})
	if err != nil {
		p.dev.FreeRecord(p.record)
		return errors.Join(err, p.mem.Free())
	}
	return nil
}

// open sets the rings up over their memory. Nothing may be posted yet.
func (p *Pair) open(g geometry) {
	memory := p.mem.Bytes()
	p.send = sender{
		err: ErrNotConnected, ledger: p.ledger.Sends, ctrl: bases(p.kernel.Number), bounds: p.bounds,
		ring: newSendRing(memory[g.receiveBytes():]), record: p.record.Words[prm.RecordSend],
		bell: p.kernel.Bell, flame: p.kernel.Bell.Blocks(),
	}
	p.receive = receiver{
		err: ErrNotConnected, ledger: p.ledger.Receives, bounds: p.bounds,
		ring: hostmem.Split[[2]uint64](memory[:g.receiveBytes()]), stride: 1 << g.shift / prm.Unit, record: p.record.Words[prm.RecordReceive],
	}
}

// Number is the queue pair's number, which completions name.
func (p *Pair) Number() uint32 { return p.kernel.Number }

// Endpoint is what a peer's queue pair connects to this one with. It is plain
// data, which a program sends to the peer by any means.
func (p *Pair) Endpoint() verbs.Endpoint { return p.control.Endpoint }

// Limits is what the queue pair holds.
func (p *Pair) Limits() Limits { return p.limits }

// Room is how many entries or receives the queue pair takes before the ring r is
// full. An entry's slot is free once a completion of it, or of an entry after it,
// has been polled, and a receive's once its completion has been polled. A
// completion of an unexpected kind frees no slot.
func (p *Pair) Room(r Ring) int {
	switch r {
	case Sends:
		p.send.mu.Lock()
		defer p.send.mu.Unlock()
		return int(p.send.ledger.Room())
	case Receives:
		return int(p.receive.ledger.Room())
	}
	return 0
}

// Destroy destroys the queue pair and frees its rings. The NIC runs none of its
// entries, reads and writes no memory for it, and its completions that were not
// polled are gone, once Destroy returns nil. The entries of its peer's queue pair
// fail once their retries end. Of a shared receive queue those receives are free again whose
// completions are gone, and nobody is told which: a program that goes on with the others
// has Fail, and then verbs.EventLastWQEReached, and polls what there is, before it destroys
// the queue pair.
//
// If the kernel refuses, that is the error. The queue pair then counts as
// destroyed all the same, but the kernel's may still complete its entries, which
// keep their room in the completion queue, and its rings their memory, until the
// NIC closes. Later calls do nothing and return nil.
func (p *Pair) Destroy() error { return p.control.Destroy(p.destroy) }

func (p *Pair) destroy() error {
	defer p.dev.Drop(p)
	err := p.dev.DestroyQP(p.kernel, func() {
		for _, a := range p.rings {
			a.queue.Purge(p.kernel)
		}
		p.detach(p.rings[:])
	})
	if err != nil {
		for _, a := range p.rings {
			a.queue.Abandon(a.rooms)
		}
		if p.srq != nil {
			p.srq.Detach() // which the kernel will refuse to destroy
		}
		p.dev.Keep(p.mem, nil)
		return fmt.Errorf("destroy queue pair: %w", err)
	}
	p.dev.FreeRecord(p.record)
	return p.mem.Free()
}

// allow sets why nothing may be posted; nil is that it may. No post is under way
// when it returns.
func (p *Pair) allow(err error) {
	p.send.mu.Lock()
	p.send.err, p.send.free = err, 0
	p.send.mu.Unlock()
	p.receive.mu.Lock()
	p.receive.err, p.receive.free = err, 0
	p.receive.mu.Unlock()
}
