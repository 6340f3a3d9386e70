package srq

import (
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/work"
)

// poster writes receives into the ring.
type poster struct {
	err    error
	ring   [][2]uint64 // in units, in memory order
	stride uint32      // units of an entry: a link, and segments
	record *uint32
	posted uint32 // free-running; all of its bits are told
}

// Receive posts a receive of a message of up to the bytes of all segments of into, which it
// fills in order. No segments are a receive of a message of no bytes, and for a peer's WriteImm.
// The NIC may fill it as soon as Receive returns; there is nothing to ring. The memory must
// stay registered until the receive completes. It returns one of this package's errors and
// has then done nothing. It does not allocate.
func (q *Queue) Receive(id uint64, into ...work.Segment) error {
	b := [1]work.Buffer{{ID: id}}
	if len(into) > 0 {
		b[0].Into, b[0].More = into[0], into[1:]
	}
	_, err := q.ReceiveAll(b[:])
	return err
}

// ReceiveAll is Receive for each of buffers in turn, at less than the cost of as many
// calls: the NIC is told once. It stops at the first that cannot be posted, and returns how
// many were, and why that one was not. Others' receives do not come in between.
func (q *Queue) ReceiveAll(buffers []work.Buffer) (n int, err error) {
	q.ledger.Lock()
	defer q.ledger.Unlock()
	for ; n < len(buffers); n++ {
		b := &buffers[n]
		if err = q.allowed(b); err != nil {
			break
		}
		q.post.write(q.ledger.Head(), b)
		q.ledger.Open(b.ID)
	}
	if n > 0 {
		q.post.posted += uint32(n)
		mmio.Record(q.post.record, prm.BE32(q.post.posted))
	}
	return n, err
}

// allowed is why b may not be posted.
func (q *Queue) allowed(b *work.Buffer) error {
	if q.post.err != nil {
		return q.post.err
	}
	if _, _, err := q.bounds.CheckReceive(b.Into, b.More); err != nil {
		return err
	}
	if q.ledger.Room() == 0 {
		return ErrRoom
	}
	return nil
}

// link writes what comes after an entry. Its segments stay as they are.
func (p *poster) link(entry, next uint16) {
	u := &p.ring[uint32(entry)*p.stride]
	u[0], u[1] = prm.NextWords(next)
}

// write encodes the segments of a receive, behind the link of its entry.
func (p *poster) write(entry uint16, b *work.Buffer) {
	at := uint32(entry) * p.stride
	end := at + p.stride
	at++
	for d, rest := &b.Into, b.More; ; d, rest = &rest[0], rest[1:] {
		if d.Length > 0 {
			u := &p.ring[at]
			u[0], u[1] = prm.DataWords(d.Addr, d.LKey, d.Length)
			at++
		}
		if len(rest) == 0 {
			break
		}
	}
	if at != end {
		u := &p.ring[at]
		u[0], u[1] = prm.TerminatorWords()
	}
}
