package cq

import (
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/verbs"
)

// Poll moves up to len(c) completions into c, oldest first, and returns how
// many. It never blocks, makes no system call and allocates nothing. Completions
// that were written before the queue or the device failed are still delivered;
// after them Poll returns 0 and ErrDestroyed, ErrOverrun or
// verbs.ErrDeviceFatal. Safe for concurrent use.
func (q *Queue) Poll(c []Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rooms.Closed() {
		return 0, ErrDestroyed
	}
	n, from := 0, q.ring.Record()
	for n < len(c) {
		e := q.next()
		if e == nil {
			break
		}
		q.ring.Advance()
		if q.translate(e, &c[n]) {
			n++
		}
	}
	if q.ring.Record() != from {
		q.consume()
	}
	if n == 0 && len(c) > 0 {
		return 0, q.failure()
	}
	return n, nil
}

// next is the entry at the consumer's counter if the NIC has written it, nil
// otherwise. Its last word is loaded first, and as one word: it makes the entry
// valid.
func (q *Queue) next() prm.CQE {
	e := q.at(&q.ring)
	if !q.ring.Owned(prm.OwnByte(atomic.LoadUint32(hostmem.Word32(e[prm.CQELastWord:])))) {
		return nil
	}
	mmio.FromDevice()
	return e
}

// at is the entry that a counter is at.
func (q *Queue) at(c *ring.Completion) prm.CQE {
	return prm.CQE(q.entries[c.Next()*prm.CQESize:][:prm.CQESize])
}

// consume tells the NIC how many entries were consumed.
func (q *Queue) consume() {
	mmio.Release(q.record.Words[prm.RecordCI], prm.BE32(q.ring.Record()))
}

// translate fills in c from e, whose entry it retires. It is false if e is of
// a queue pair whose destruction failed, which nobody waits for.
func (q *Queue) translate(e prm.CQE, c *Completion) bool {
	*c = Completion{QPN: e.QPN()}
	p := q.dev.Pair(e)
	if p != nil && p.Ghost {
		return false
	}
	if p == nil || !q.retire(p, e, c) {
		*c = Completion{QPN: e.QPN(), Unexpected: true, Status: verbs.GeneralError}
	}
	return true
}

// retire is false, and has retired nothing, if e cannot be true.
func (q *Queue) retire(p *ledger.Pair, e prm.CQE, c *Completion) bool {
	// The bits of an error entry's format are reserved.
	if e.Format() != 0 && !e.Opcode().IsError() {
		return false
	}
	switch e.Opcode() {
	case prm.CQERequester, prm.CQERequesterError:
		entry, ok := p.Sends.Retire(e.WQECounter())
		if !ok {
			return false
		}
		c.ID, c.Ring, c.Op = entry.ID, Sends, Op(entry.Op)
		c.Bytes = fetched(c.Op, e)
	case prm.CQEReceive, prm.CQEReceiveImm, prm.CQEWriteImm, prm.CQEResponderError:
		if p.Receives == nil {
			return false
		}
		id, ok := p.Receives.Retire(e.WQECounter())
		if !ok {
			return false
		}
		c.ID, c.Ring, c.Op = id, Receives, Receive
		arrived(c, e)
	default:
		return false
	}
	if e.Opcode().IsError() {
		fail(c, e)
	}
	return true
}

// fetched is how many bytes an entry brought into local memory. The byte count of
// an atomic's completion is nothing to go by: rdma-core and the kernel take 8.
func fetched(op Op, e prm.CQE) uint32 {
	switch op {
	case Read:
		return e.ByteCount()
	case CompareSwap, FetchAdd:
		return 8
	}
	return 0
}

// arrived fills in what the completion of a receive says.
func arrived(c *Completion, e prm.CQE) {
	c.Bytes, c.Solicited = e.ByteCount(), e.Solicited()
	switch e.Opcode() {
	case prm.CQEWriteImm:
		c.Op = ReceiveWrite
		fallthrough
	case prm.CQEReceiveImm:
		c.Imm, c.HasImm = e.Imm(), true
	}
}

// fail fills in what an error completion says, and takes back what it does not.
func fail(c *Completion, e prm.CQE) {
	c.Bytes, c.Solicited = 0, false
	c.Syndrome, c.Vendor = uint8(e.Syndrome()), e.VendorSyndrome()
	c.Status = status(e.Syndrome())
}
