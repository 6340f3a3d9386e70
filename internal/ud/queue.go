package ud

import "github.com/farwire/farwire/internal/rc"

// queue is the send queue: a ring of works under free-running counters.
type queue struct {
	ring       []rc.Work // a power of two long
	head, tail uint32
}

func (q *queue) init(depth int) {
	n := 1
	for n < depth {
		n *= 2
	}
	q.ring = make([]rc.Work, n)
}

func (q *queue) at(i uint32) *rc.Work { return &q.ring[i&uint32(len(q.ring)-1)] }

func (q *queue) empty() bool { return q.head == q.tail }

// first is the oldest work. It stays as it is after pop, until the next push.
func (q *queue) first() *rc.Work { return q.at(q.head) }

func (q *queue) pop() { q.head++ }

func (q *queue) push(w *rc.Work) {
	if q.tail-q.head == uint32(len(q.ring)) {
		old := *q
		q.ring = make([]rc.Work, 2*len(old.ring))
		for i := old.head; i != old.tail; i++ {
			*q.at(i) = *old.at(i)
		}
	}
	*q.at(q.tail) = *w
	q.tail++
}

func (q *queue) clear() { q.head = q.tail }
