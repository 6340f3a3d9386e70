package cq

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
)

// purge takes the entries of the queue pair at key out of the queue. The kernel
// has destroyed it, so no more of them come; other queue pairs' may come
// meanwhile, behind those found here. The entries that stay move up towards the
// producer, each keeping the owner bit of the place it moves to, and the
// consumer's counter moves past the gap. Receives of a shared receive queue are
// free again.
func (q *Queue) purge(key device.Key) {
	first := q.ring
	for _, _, ok := q.next(); ok; _, _, ok = q.next() {
		q.ring.Advance()
	}
	to := q.ring
	for from := q.ring; from != first; {
		from.Back()
		e := q.at(&from)
		if q.dev.KeyOf(e) == key {
			if p := q.dev.Pair(e); p != nil && p.Shared != nil && !e.Opcode().IsSend() {
				p.Shared.Retire(e.WQECounter())
			}
			continue
		}
		to.Back()
		if to != from {
			move(q.at(&to), e)
		}
	}
	q.ring = to
	if to != first {
		q.consume()
	}
}

// at is the entry that a counter is at.
func (q *Queue) at(c *ring.Completion) prm.CQE { return q.entries[c.Next()].Bytes() }

// move copies from over to but for to's owner bit.
func move(to, from prm.CQE) {
	own := to.Owner()
	copy(to, from)
	last := len(to) - 1
	to[last] = to[last]&^1 | own
}
