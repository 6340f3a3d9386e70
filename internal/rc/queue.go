package rc

// Queue is a ring under two free-running counters, head <= tail, which grows when it is
// full: a send queue, here and of datagrams.
type Queue[T any] struct {
	ring       []T // a power of two long
	head, tail uint32
}

// NewQueue makes a queue with room for depth elements.
func NewQueue[T any](depth int) Queue[T] {
	n := 1
	for n < depth {
		n *= 2
	}
	return Queue[T]{ring: make([]T, n)}
}

func (q *Queue[T]) at(i uint32) *T { return &q.ring[i&uint32(len(q.ring)-1)] }

// Empty reports whether there is none.
func (q *Queue[T]) Empty() bool { return q.head == q.tail }

// First is the oldest element. It stays as it is after Pop, until the next Push.
func (q *Queue[T]) First() *T { return q.at(q.head) }

// Pop takes the oldest element out.
func (q *Queue[T]) Pop() { q.head++ }

// Push adds an element, whose place it returns to be filled.
func (q *Queue[T]) Push() *T {
	if q.tail-q.head == uint32(len(q.ring)) {
		old := *q
		q.ring = make([]T, 2*len(old.ring))
		for i := old.head; i != old.tail; i++ {
			*q.at(i) = *old.at(i)
		}
	}
	q.tail++
	return q.at(q.tail - 1)
}

// Clear takes all out.
func (q *Queue[T]) Clear() { q.head = q.tail }
