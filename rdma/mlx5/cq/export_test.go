package cq

import (
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
)

// Exhaust tells the NIC that the queue is full of entries which nobody has taken, although
// it has room: the next completion overruns it.
func (q *Queue) Exhaust() {
	q.mu.Lock()
	defer q.mu.Unlock()
	mmio.Release(q.consumed, prm.BE32((q.ring.Record()-q.ring.Size())&(1<<24-1)))
}
