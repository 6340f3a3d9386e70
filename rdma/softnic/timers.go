package softnic

import (
	"container/heap"
	"time"
)

// One timer serves all queue pairs. Deadlines move away with every packet, so
// they are kept lazily: an entry of the heap is not later than its queue pair's
// deadline, and is corrected when its time, or that of another, comes. A busy NIC so
// touches neither heap nor timer.

// timerHeap orders queue pairs by qp.deadline; qp.timer is the index, -1 outside.
type timerHeap []*qp

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i, j
}

// Push and Pop are for package heap.
func (h *timerHeap) Push(x any) {
	q := x.(*qp)
	q.timer = len(*h)
	*h = append(*h, q)
}

// Pop removes the last.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.timer = -1
	return q
}

// setDeadline sees to it that the heap has an entry no later than the queue
// pair's deadline.
func (n *NIC) setDeadline(q *qp) {
	t, ok := q.wakeAt()
	switch {
	case !ok:
	case q.timer < 0:
		q.deadline = t
		heap.Push(&n.timers, q)
	case t.Before(q.deadline):
		q.deadline = t
		heap.Fix(&n.timers, q.timer)
	}
}

func (n *NIC) unschedule(q *qp) {
	if q.timer >= 0 {
		heap.Remove(&n.timers, q.timer)
	}
}

// expire does what is due and returns how much that was.
func (n *NIC) expire(now time.Time) (did int) {
	if len(n.timers) == 0 || n.timers[0].deadline.After(now) {
		return 0
	}
	for n.correct() && !n.timers[0].deadline.After(now) {
		q := n.timers[0]
		heap.Pop(&n.timers)
		q.proto.Expire(now)
		n.schedule(q)
		did++
	}
	return did
}

// correct makes the heap's first entry right, and reports whether there is one. Entries
// whose time is still to come are corrected as well, so that the timer is set to a
// deadline next, and does not fire for each queue pair that had one. That is no more work
// than there were packets: they moved what is corrected.
func (n *NIC) correct() bool {
	for len(n.timers) > 0 && !n.failed {
		q := n.timers[0]
		t, ok := q.wakeAt()
		switch {
		case !ok:
			heap.Pop(&n.timers)
		case t.After(q.deadline):
			q.deadline = t
			heap.Fix(&n.timers, 0)
		default:
			return true
		}
		n.effort.corrected++
	}
	return false
}

// timerFired is what the timer calls. The engine may be running, by a clock it read
// before: it has to hear that the timer is not set any more, or it would take it for
// one that is still to fire.
func (n *NIC) timerFired() {
	n.fired.Store(true)
	n.kick()
}

// setTimer sets the timer to the earliest thing that is due, unless it fires
// before that anyway.
func (n *NIC) setTimer(now time.Time) {
	next := n.flushAt
	if len(n.timers) > 0 {
		next = earlier(next, n.timers[0].deadline)
	}
	for c := range n.late {
		next = earlier(next, c.delayed[0].due)
	}
	if next.IsZero() || n.failed || n.closed || !n.timerAt.IsZero() && !next.Before(n.timerAt) {
		return
	}
	n.effort.alarms++
	n.timerAt = next
	n.timer.Reset(max(0, next.Sub(now)))
}

// earlier is the earlier of two times, the zero time being never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) && !b.IsZero() {
		return b
	}
	return a
}
