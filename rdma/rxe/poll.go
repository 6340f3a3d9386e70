package rxe

import (
	"encoding/binary"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// Poll moves up to len(c) completions into c, oldest first, and returns how
// many. It never blocks, makes no system call and allocates nothing. Completions
// that were written before the queue or the device failed are still delivered;
// after them Poll returns 0 and work.ErrQueueClosed, work.ErrOverrun or
// verbs.ErrDeviceFatal. Soft-RoCE does not tell whether a message was solicited. Safe
// for concurrent use.
func (q *Queue) Poll(c []work.Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rooms.Closed() {
		return 0, work.ErrQueueClosed
	}
	n, from := 0, q.next
	for n < len(c) && q.ring.ready(q.next) {
		if q.translate(q.at(q.next), &c[n]) {
			n++
		}
		q.next++
	}
	if q.next != from {
		q.ring.consume(q.next)
	}
	if n == 0 && len(c) > 0 {
		return 0, q.failure()
	}
	return n, nil
}

// failure is why the queue will deliver nothing more, or nil.
func (q *Queue) failure() error {
	if q.wake.Overrun() {
		return work.ErrOverrun
	}
	return q.dev.Failure()
}

// translate fills in c from e, whose entry it retires. It is false if e is of a queue
// pair whose destruction failed, which nobody waits for.
func (q *Queue) translate(e *uapi.WorkCompletion, c *work.Completion) bool {
	pair, ring, counter := splitID(e.WRID)
	*c = work.Completion{QPN: e.QPNum, Ring: ring}
	p := q.pairs[pair]
	if p != nil && p.ledger.Ghost {
		return false
	}
	if p == nil || !retire(p, counter, e, c) {
		*c = work.Completion{QPN: e.QPNum, Unexpected: true, Status: verbs.GeneralError}
		return true
	}
	if c.Status = status(e.Status); c.Status != verbs.Success {
		c.Vendor, c.Bytes, c.Imm, c.HasImm = uint8(e.VendorErr), 0, 0, false
		p.failed.Store(true)
	}
	return true
}

// retire is false, and has retired nothing, if no such entry is outstanding.
func retire(p *attached, counter uint16, e *uapi.WorkCompletion, c *work.Completion) bool {
	if c.Ring == work.Sends {
		entry, ok := p.ledger.Sends.Retire(counter)
		c.ID, c.Op = entry.ID, work.Op(entry.Op)
		switch c.Op {
		case work.Read:
			c.Bytes = e.ByteLen
		case work.CompareSwap, work.FetchAdd:
			c.Bytes = 8
		}
		return ok
	}
	if p.ledger.Receives == nil {
		return false
	}
	id, ok := p.ledger.Receives.Retire(counter)
	c.ID, c.Op, c.Bytes = id, work.Receive, e.ByteLen
	if e.Status == uint32(verbs.Success) && e.Opcode == rxeabi.CompletedReceiveWrite {
		c.Op = work.ReceiveWrite
	}
	if e.WcFlags&rxeabi.CompletedWithImm != 0 {
		c.Imm, c.HasImm = binary.BigEndian.Uint32(e.Ex[:]), true
	}
	return ok
}

// status is a status of the kernel's.
func status(s uint32) verbs.Status {
	if s > uint32(verbs.GeneralError) {
		return verbs.GeneralError
	}
	return verbs.Status(s)
}
