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
	ring   [][2]uint64 // in units, in memory order; a power of two
	stride uint32      // units of a receive, a power of two
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
	b := [1]Buffer{{ID: id}}
	if len(into) > 0 {
		b[0].Into, b[0].More = into[0], into[1:]
	}
	_, err := p.ReceiveAll(b[:])
	return err
}

// Buffer is the memory of one receive, for ReceiveAll.
type Buffer struct {
	ID   uint64 // the caller's, for the completion
	Into region.Segment
	More []region.Segment // goes on where Into ends
}

// ReceiveAll is Receive for each of buffers in turn, at less than the cost of as many
// calls: the NIC is told once. It stops at the first that cannot be posted, and returns
// how many were, and why that one was not. Others' receives do not come in between.
func (p *Pair) ReceiveAll(buffers []Buffer) (n int, err error) {
	r := &p.receive
	r.mu.Lock()
	switch {
	case r.err != nil:
		err = r.err
	case len(r.ring) == 0 && len(buffers) > 0:
		err = ErrNoReceives
	default:
		n, err = r.post(buffers)
	}
	r.mu.Unlock()
	return n, err
}

// post encodes receives at the end of the ring, and lets the NIC see them.
func (r *receiver) post(buffers []Buffer) (n int, err error) {
	room, index := int(r.ledger.Room()), r.ledger.Index()
	for n < len(buffers) && n < room {
		b := &buffers[n]
		if bytes := b.Into.Length; len(b.More) == 0 && bytes > 0 && bytes <= r.bounds.Message { // as most are
			u := r.unit(index * r.stride)
			u[0], u[1] = prm.DataWords(b.Into.Addr, b.Into.LKey, bytes)
			if r.stride > 1 {
				r.terminate(index*r.stride + 1)
			}
		} else if err = r.write(index, b); err != nil {
			break
		}
		r.ledger.Note(index, b.ID)
		index++
		n++
	}
	if n > 0 {
		r.ledger.OpenTo(index)
		mmio.Record(r.record, prm.BE32(index&0xffff))
	}
	if n == room && n < len(buffers) {
		if _, _, err = r.bounds.CheckReceive(buffers[n].Into, buffers[n].More); err == nil {
			err = ErrRoom
		}
	}
	return n, err
}

// write encodes any receive, if it may be posted.
func (r *receiver) write(index uint32, b *Buffer) error {
	if _, _, err := r.bounds.CheckReceive(b.Into, b.More); err != nil {
		return err
	}
	at := index * r.stride
	end := at + r.stride
	if d := b.Into; d.Length > 0 {
		u := r.unit(at)
		u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
		at++
	}
	for _, d := range b.More {
		if d.Length > 0 {
			u := r.unit(at)
			u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
			at++
		}
	}
	if at != end {
		r.terminate(at)
	}
	return nil
}

func (r *receiver) terminate(at uint32) {
	u := r.unit(at)
	u[0], u[1] = prm.TerminatorWords()
}

func (r *receiver) unit(i uint32) *[2]uint64 { return &r.ring[i&uint32(len(r.ring)-1)] }
