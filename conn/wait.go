package conn

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// half is one direction of a connection: who uses it, and how they wait.
type half struct {
	seat sync.Mutex // held by the one Read or Write that is being served

	// Guarded by Conn.mu. Only the holder of the seat parks.
	parked   bool
	wake     chan struct{}
	deadline deadline
	spin     spin
}

func newHalf(spinFor time.Duration) half {
	return half{wake: make(chan struct{}, 1), spin: newSpin(spinFor)}
}

// signal makes a parked goroutine look again.
func (h *half) signal() {
	if h.parked {
		h.parked = false
		h.wake <- struct{}{}
	}
}

// wait returns when something may have changed: completions were handled, a bit of
// spinning is over, or signal was called. Called and returns with mu held.
func (c *Conn) wait(h *half, w *waiting) {
	if c.progress() {
		return
	}
	if w.spins(&h.spin) {
		c.relax()
		return
	}
	if !c.armed && !c.lost {
		c.arm()
		return
	}
	c.stats.Parks++
	h.parked = true
	c.mu.Unlock()
	<-h.wake
	c.mu.Lock()
}

// relax lets others run, for a moment, with mu given up.
func (c *Conn) relax() {
	c.stats.Spins++
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
}

// spin decides how long the waits of one direction spin before they park: not at
// all after long waits, up to max after short ones.
type spin struct {
	max, limit time.Duration
}

const minSpin = time.Microsecond

// spinning counts the goroutines of all connections that spin now: no more than there
// are processors. They let others run between looks, so that those with work get to it.
var spinning atomic.Int32

func newSpin(d time.Duration) spin {
	if d == 0 {
		d = DefaultSpin
	}
	return spin{max: d, limit: d}
}

// learn adapts to a wait that lasted d, spun or parked.
func (s *spin) learn(d time.Duration) {
	if d <= s.max {
		s.limit = min(max(2*s.limit, minSpin), s.max)
	} else if s.limit /= 2; s.limit < minSpin {
		s.limit = 0
	}
}

// waiting is one blocked call.
type waiting struct {
	began  time.Time
	rounds int
	spun   bool // counted in spinning
	over   bool // has spun enough
}

// minRound is less than one round of spinning takes. It bounds the rounds where the
// clock stands still, as in testing/synctest.
const minRound = 50 * time.Nanosecond

// spins reports whether to spin on.
func (w *waiting) spins(s *spin) bool {
	if w.over || s.max < 0 {
		return false
	}
	if w.began.IsZero() {
		w.began = time.Now()
		w.spun = s.limit > 0 && int(spinning.Add(1)) <= runtime.GOMAXPROCS(0)
		if s.limit > 0 && !w.spun {
			spinning.Add(-1)
		}
		w.over = !w.spun
	} else if time.Since(w.began) > s.limit || w.rounds > int(s.limit/minRound) {
		w.stop()
	}
	w.rounds++
	return !w.over
}

func (w *waiting) stop() {
	w.over = true
	if w.spun {
		w.spun = false
		spinning.Add(-1)
	}
}

// end must be called when the wait is over, whether it began or not.
func (w *waiting) end(s *spin) {
	w.stop()
	if !w.began.IsZero() {
		s.learn(time.Since(w.began))
	}
}
