package qp

import (
	"sync"

	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// receiver is the receive ring.
type receiver struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	ledger *ledger.Receives
	bounds *nic.Bounds
	ring   []byte
	shift  uint32 // log2 of an entry's bytes
	record *uint32
}

// Receive posts a receive of a message of up to the bytes of all segments of
// into, which it fills in order. No segments are a receive of a message of no
// bytes, and for the peer's WriteImm, which needs no memory. The NIC may fill it
// as soon as Receive returns, with the next message of the peer that no earlier
// receive took; there is nothing to ring. The memory must stay registered until
// the receive completes. It returns one of this package's errors or
// region.ErrRange, and has then done nothing. Safe for concurrent use; it does
// not allocate.
func (p *Pair) Receive(id uint64, into ...region.Segment) error {
	r := &p.receive
	r.mu.Lock()
	err := r.post(id, into)
	r.mu.Unlock()
	return err
}

func (r *receiver) post(id uint64, into []region.Segment) error {
	switch {
	case r.err != nil:
		return r.err
	case r.ledger == nil:
		return ErrNoReceives
	}
	if _, _, err := r.bounds.CheckReceive(into); err != nil {
		return err
	}
	if r.ledger.Room() == 0 {
		return ErrRoom
	}
	r.write(into)
	r.ledger.Open(id)
	mmio.Record(r.record, prm.BE32(r.ledger.Index()&0xffff))
	return nil
}

// write encodes a receive at the end of the ring.
func (r *receiver) write(into []region.Segment) {
	i := r.ledger.Index() & (r.ledger.Slots() - 1)
	stride := r.ring[i<<r.shift:][:1<<r.shift]
	for _, s := range into {
		if s.Length > 0 {
			prm.PutData(stride, prm.Segment{Addr: s.Addr, LKey: s.LKey, Length: s.Length})
			stride = stride[prm.Unit:]
		}
	}
	if len(stride) > 0 {
		prm.PutTerminator(stride)
	}
}
