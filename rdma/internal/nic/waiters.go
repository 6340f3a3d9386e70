package nic

import (
	"slices"
	"sync"
)

// waiters are the goroutines in Wait. Each has a channel of its own, with room
// for one token, so that an event wakes all of them; the channels are reused.
type waiters struct {
	mu   sync.Mutex
	in   []chan struct{}
	idle []chan struct{}
}

// enter returns the channel that wakeAll puts a token in from now on, until
// leave is called with it.
func (w *waiters) enter() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	var c chan struct{}
	if n := len(w.idle); n > 0 {
		c, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		c = make(chan struct{}, 1)
	}
	w.in = append(w.in, c)
	return c
}

func (w *waiters) leave(c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.in, c)
	w.in = slices.Delete(w.in, i, i+1)
	select {
	case <-c:
	default:
	}
	w.idle = append(w.idle, c)
}

func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.in {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
