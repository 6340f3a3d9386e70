package listener

import (
	"context"
	"errors"
	"sync/atomic"
)

// Stats counts what a Listener has done so far. Each client that was accepted is under
// way, has finished, or has failed; what Close ends is not counted.
type Stats struct {
	Accepted uint64 // clients whose handshake began
	Finished uint64 // of them that became a connection
	Failed   uint64 // of them that did not: OnError was told why
	TimedOut uint64 // of the failed: after Config.Timeout
	Evicted  uint64 // of the failed: for newer ones

	UnderWay int // handshakes now, and finished ones that have no place in the queue
	Waiting  int // connections that are finished and not accepted
}

type counters struct {
	accepted, finished, failed, timedOut, evicted atomic.Uint64
}

func (c *counters) fail(err error) {
	switch {
	case errors.Is(err, ErrEvicted):
		c.evicted.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		c.timedOut.Add(1)
	}
	c.failed.Add(1)
}

// Stats returns the counts at this moment. It works on closed listeners too.
func (l *Listener) Stats() Stats {
	return Stats{
		Accepted: l.count.accepted.Load(), Finished: l.count.finished.Load(), Failed: l.count.failed.Load(),
		TimedOut: l.count.timedOut.Load(), Evicted: l.count.evicted.Load(),
		UnderWay: len(l.places), Waiting: len(l.ready),
	}
}
