package cq

import (
	"sync/atomic"

	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
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
	// What most completions need is done in the loop itself, as each call in it costs ten
	// to twenty instructions. The first lines are those of next.
	for ; uint(n) < uint(len(c)); q.ring.Advance() {
		to := &c[n]
		e := &q.entries[q.ring.Next()]
		last := atomic.LoadUint32(e.Last())
		if !q.ring.Owned(prm.OwnByte(last)) {
			break
		}
		mmio.FromDevice()
		p := q.recent
		if e[q.keyWord&15] != q.recentWord || p.Left() {
			if p = q.pair(e); p.Ghost {
				continue
			}
		}
		n++
		*to = Completion{QPN: p.QPN}
		switch counter, kind, solicited := prm.ParseLastWord(last); kind {
		case prm.KindSent:
			sends := p.Sends
			if entry := sends.Outstanding(counter); entry != nil {
				op := Op(entry.Op)
				to.ID, to.Op = entry.ID, op
				sends.Free(entry)
				if op >= Read {
					to.Bytes = fetched(op, e)
				}
				continue
			}
		case prm.KindReceived, prm.KindReceivedImm, prm.KindWritten:
			if id, ok := p.Receives.Retire(counter); ok {
				to.ID, to.Ring, to.Op, to.Bytes, to.Solicited = id, Receives, Receive, e.ByteCount(), solicited
				if kind != prm.KindReceived {
					to.Imm, to.HasImm = e.Imm(), true
				}
				if kind == prm.KindWritten {
					to.Op = ReceiveWrite
				}
				continue
			}
		}
		other(e.Bytes(), p, to)
	}
	if n > 0 { // of ghosts alone the NIC may hear later: their room stays counted
		q.consume()
	} else if len(c) > 0 {
		err = q.failure()
	}
	q.mu.Unlock()
	return n, err
}

// next is the entry at the consumer's counter and its last word, if the NIC has written
// it. The last word is loaded first, and as one word: it makes the entry valid.
func (q *Queue) next() (e *prm.CQEWords, last uint32, ok bool) {
	e = &q.entries[q.ring.Next()]
	last = atomic.LoadUint32(e.Last())
	if !q.ring.Owned(prm.OwnByte(last)) {
		return nil, 0, false
	}
	mmio.FromDevice()
	return e, last, true
}

// consume tells the NIC how many entries were consumed.
func (q *Queue) consume() { mmio.Release(q.consumed, prm.BE32(q.ring.Record())) }

// pair is the ledger of the queue pair that e is of. It is the recent one then, unless
// it is a ghost, or of nobody.
func (q *Queue) pair(e *prm.CQEWords) *ledger.Pair {
	p := q.dev.Pair(e.Bytes())
	if p == nil {
		q.nobody.QPN = e.Bytes().QPN()
		return &q.nobody
	}
	if !p.Ghost {
		q.recent, q.recentWord = p, e[q.keyWord]
	}
	return p
}

// other fills in c from e, which is no success of an entry or a receive of the queue pair's own
// that is outstanding.
func other(e prm.CQE, p *ledger.Pair, c *Completion) {
	ok := false
	switch e.Opcode() {
	case prm.CQEReceive, prm.CQEReceiveImm, prm.CQEWriteImm:
		if p.Shared != nil && shared(e, p.Shared, c) {
			return
		}
	case prm.CQERequesterError:
		var entry ledger.Entry
		entry, ok = p.Sends.Retire(e.WQECounter())
		c.ID, c.Op = entry.ID, Op(entry.Op)
	case prm.CQEResponderError:
		c.ID, ok = retire(p, e.WQECounter())
		c.Ring, c.Op = Receives, Receive
	}
	if !ok { // it cannot be true; nothing was retired
		*c = Completion{QPN: c.QPN, Unexpected: true, Status: verbs.GeneralError}
		return
	}
	c.Status, c.Syndrome, c.Vendor = status(e.Syndrome()), uint8(e.Syndrome()), e.VendorSyndrome()
}

// shared fills in c from e, the success of a receive of a shared receive queue, if one is
// outstanding.
func shared(e prm.CQE, l *ledger.Shared, c *Completion) (ok bool) {
	if c.ID, ok = l.Retire(e.WQECounter()); !ok {
		return false
	}
	c.Ring, c.Op, c.Bytes, c.Solicited = Receives, Receive, e.ByteCount(), e.Solicited()
	if o := e.Opcode(); o != prm.CQEReceive {
		c.Imm, c.HasImm = e.Imm(), true
		if o == prm.CQEWriteImm {
			c.Op = ReceiveWrite
		}
	}
	return true
}

// retire retires a receive.
func retire(p *ledger.Pair, counter uint16) (id uint64, ok bool) {
	if p.Shared != nil {
		return p.Shared.Retire(counter)
	}
	return p.Receives.Retire(counter)
}

// fetched is how many bytes an entry brought into local memory. The byte count of
// an atomic's completion is nothing to go by: rdma-core and the kernel take 8.
func fetched(op Op, e *prm.CQEWords) uint32 {
	switch op {
	case Read:
		return e.ByteCount()
	case CompareSwap, FetchAdd:
		return 8
	}
	return 0
}
