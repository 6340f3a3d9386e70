package cq

import (
	"sync/atomic"

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
func (q *Queue) Poll(c []Completion) (n int, err error) {
	q.mu.Lock()
	if q.rooms.Closed() {
		q.mu.Unlock()
		return 0, ErrDestroyed
	}
	from := q.ring.Record()
	for n < len(c) {
		e, last := q.next()
		if e == nil {
			break
		}
		q.ring.Advance()
		if q.translate(e, last, &c[n]) {
			n++
		}
	}
	if q.ring.Record() != from {
		q.consume()
	}
	if n == 0 && len(c) > 0 {
		err = q.failure()
	}
	q.mu.Unlock()
	return n, err
}

// entry is the bytes of an entry in the ring.
type entry = *[prm.CQESize]byte

// next is the entry at the consumer's counter if the NIC has written it, and its last
// word; nil otherwise. The last word is loaded first, and as one word: it makes the
// entry valid.
func (q *Queue) next() (e entry, last uint32) {
	i := q.ring.Next()
	last = atomic.LoadUint32(&q.words[i][prm.CQELastWord/4])
	if !q.ring.Owned(prm.OwnByte(last)) {
		return nil, 0
	}
	mmio.FromDevice()
	return &q.entries[i], last
}

// at is the entry that a counter is at.
func (q *Queue) at(c *ring.Completion) entry { return &q.entries[c.Next()] }

// consume tells the NIC how many entries were consumed.
func (q *Queue) consume() {
	mmio.Release(q.record.Words[prm.RecordCI], prm.BE32(q.ring.Record()))
}

// translate fills in c from e, with its last word, and retires the entry or receive
// it is of. It is false if e is of a queue pair whose destruction failed, which
// nobody waits for.
func (q *Queue) translate(e entry, last uint32, c *Completion) bool {
	*c = Completion{QPN: prm.CQE(e[:]).QPN()}
	p := q.dev.Pair(e[:])
	if p == nil {
		unexpected(c)
		return true
	}
	if p.Ghost {
		return false
	}
	counter, kind := prm.ParseLastWord(last)
	switch kind {
	case prm.KindOf(prm.CQERequester):
		if sent := p.Sends.Outstanding(counter); sent != nil {
			c.ID, c.Op = sent.ID, Op(sent.Op)
			p.Sends.Free(sent)
			if c.Op >= Read {
				c.Bytes = fetched(c.Op, e[:])
			}
			return true
		}
	case prm.KindOf(prm.CQEReceive), prm.KindOf(prm.CQEReceiveImm), prm.KindOf(prm.CQEWriteImm):
		if p.Receives == nil {
			break
		}
		if id, ok := p.Receives.Retire(counter); ok {
			c.ID, c.Ring, c.Op = id, Receives, Receive
			arrived(c, e[:])
			return true
		}
	default:
		if failed(p, e[:], c) {
			return true
		}
	}
	unexpected(c)
	return true
}

// unexpected makes c a completion that cannot be true. Nothing was retired.
func unexpected(c *Completion) {
	*c = Completion{QPN: c.QPN, Unexpected: true, Status: verbs.GeneralError}
}

// failed is translate for an error entry: false if e is none, or cannot be true.
func failed(p *ledger.Pair, e prm.CQE, c *Completion) (ok bool) {
	switch e.Opcode() {
	case prm.CQERequesterError:
		var sent ledger.Entry
		sent, ok = p.Sends.Retire(e.WQECounter())
		c.ID, c.Op = sent.ID, Op(sent.Op)
	case prm.CQEResponderError:
		if p.Receives != nil {
			c.ID, ok = p.Receives.Retire(e.WQECounter())
			c.Ring, c.Op = Receives, Receive
		}
	}
	c.Status, c.Syndrome, c.Vendor = status(e.Syndrome()), uint8(e.Syndrome()), e.VendorSyndrome()
	return ok
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
