package conn

// fifo is a queue of bounded length in a ring that never grows.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

func newFIFO[T any](capacity int) fifo[T] { return fifo[T]{ring: make([]T, capacity)} }

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) push(v T) {
	f.ring[(f.head+f.n)%len(f.ring)] = v
	f.n++
}

func (f *fifo[T]) pushFront(v T) {
	f.head = (f.head + len(f.ring) - 1) % len(f.ring)
	f.ring[f.head] = v
	f.n++
}

func (f *fifo[T]) pop() T {
	v := f.ring[f.head]
	f.head = (f.head + 1) % len(f.ring)
	f.n--
	return v
}
