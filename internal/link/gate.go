package link

import "sync/atomic"

// gate lets calls through until it is closed, and knows when the last has left.
// Unlike a read lock it may be passed again by a call that is inside while
// another waits to close it.
//
//	state: number of calls inside, plus gateClosed once closed
type gate struct {
	state atomic.Int64
	idle  chan struct{} // closed when closed and empty
}

const gateClosed = 1 << 62

func newGate() gate { return gate{idle: make(chan struct{})} }

// closed reports whether the gate was shut.
func (g *gate) closed() bool { return g.state.Load() >= gateClosed }

// enter reports whether the gate is open; if so leave must follow.
func (g *gate) enter() bool {
	for {
		n := g.state.Load()
		if n >= gateClosed {
			return false
		}
		if g.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateClosed {
		close(g.idle)
	}
}

// shut closes the gate; only the first call returns true.
func (g *gate) shut() bool {
	for {
		n := g.state.Load()
		if n >= gateClosed {
			return false
		}
		if g.state.CompareAndSwap(n, n+gateClosed) {
			if n == 0 {
				close(g.idle)
			}
			return true
		}
	}
}

// wait returns when the gate is shut and nobody is inside.
func (g *gate) wait() { <-g.idle }
