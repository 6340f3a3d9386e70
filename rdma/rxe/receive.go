package rxe

import (
	"sync"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/work"
)

// receiver is the receive ring.
type receiver struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	ledger *ledger.Receives
	bounds *nic.Bounds
	ring   *ring
	pair   uint64 // id
}

// Receive posts a receive of a message of up to the bytes of all segments of
// into, which it fills in order. No segments are a receive of a message of no
// bytes, and for the peer's WriteImm, which needs no memory. The kernel may fill it
// as soon as Receive returns, with the next message of the peer that no earlier
// receive took; there is nothing to ring. The memory must stay registered until
// the receive completes. It returns one of work's errors, and has then done nothing.
// Safe for concurrent use; it does not allocate, and makes no system call before the
// queue pair is in error.
func (p *Pair) Receive(id uint64, into ...work.Segment) error {
	r := &p.receive
	r.mu.Lock()
	err := r.post(id, into)
	r.mu.Unlock()
	if err == nil {
		p.flush()
	}
	return err
}

func (r *receiver) post(id uint64, into []work.Segment) error {
	switch {
	case r.err != nil:
		return r.err
	case r.ledger == nil:
		return work.ErrNoReceives
	}
	segments, bytes, err := r.bounds.CheckReceive(work.Segment{}, into)
	if err != nil {
		return err
	}
	// The second can be only if a completion came before its slot was free.
	if r.ledger.Room() == 0 || r.ring.full(r.ledger.Index()) {
		return work.ErrRoom
	}
	slot := r.ring.slot(r.ledger.Index())
	*rxeabi.View[rxeabi.ReceiveEntry](slot) = rxeabi.ReceiveEntry{
		ID:  makeID(r.pair, work.Receives, r.ledger.Index()),
		DMA: rxeabi.DMA{Length: bytes, Rest: bytes, Segments: uint32(segments)},
	}
	putSegments(slot[rxeabi.Size[rxeabi.ReceiveEntry]():], into)
	r.ledger.Open(id)
	r.ring.produce(r.ledger.Index())
	return nil
}
