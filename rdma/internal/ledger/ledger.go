// Package ledger remembers, beside the rings of a queue pair, what was posted
// and has not completed: the caller's identifiers, and which completions can
// be true.
//
// Two parties share a ledger: a poster, who opens slots, and a poller, who
// retires them. Each is one goroutine at a time (the queue pair's and the
// completion queue's locks see to it), but the two run concurrently. A slot is
// the poster's until it is handed over, the poller's until it is retired, and
// the counters that move it are atomic: no slot is ever touched by both.
package ledger

import "sync/atomic"

// Pair is the ledger of one queue pair: what a completion queue finds by the
// user index or the number in a completion.
type Pair struct {
	QPN      uint32
	Sends    *Sends
	Receives *Receives // nil, or one that takes none, if there is no receive ring
	Shared   *Shared   // of the shared receive queue that it takes receives of, or nil

	// Ghost marks a queue pair that the kernel refused to destroy. Its
	// completions are of no interest to anyone.
	Ghost bool

	left atomic.Uint32 // 1 once it has
}

// Leave says that completions do not find the ledger any more. Who remembers it from
// the completion before sees that by Left.
func (p *Pair) Leave() { p.left.Store(1) }

// Left reports whether Leave was called.
func (p *Pair) Left() bool { return p.left.Load() != 0 }

// Entry is what a completion says about the entry it retires.
type Entry struct {
	ID uint64
	Op uint8
}

// Rooms is how many completions a ring of a queue pair may leave in its
// completion queue.
type Rooms struct {
	N      uint32
	Shared *Shared // the ring is this one's: queue pairs with the same one leave N together
}
