package cq

import (
	"context"

	"github.com/farwire/farwire/internal/prm"
)

// Arm asks the NIC for one completion event: at the next completion, or, with
// solicitedOnly, at the next one whose sender asked for an event or that failed.
// Completions that are already in the queue may or may not give one, so the
// queue is to be drained after Arm and before sleeping. Arming again before the
// event changes nothing, but for any completion after solicitedOnly. Safe for concurrent use; it does not allocate.
func (q *Queue) Arm(solicitedOnly bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rooms.Closed() {
		return ErrDestroyed
	}
	if err := q.failure(); err != nil {
		return err
	}
	// The NIC may take the last arm before an event for the one that counts: it must
	// not narrow what another goroutine waits for.
	sequence := q.wake.Events()
	if !solicitedOnly {
		q.wide = sequence + 1
	}
	value := prm.ArmValue(sequence, q.wide != sequence+1, q.ring.Record())
	q.dev.Arm(q.record, value, q.kernel.Number)
	return nil
}

// Notify makes f the function that is called after each completion event, and
// once when the queue or the device fails; nil is none. It runs on the NIC's own
// goroutine, which serves all its queues: it must not block, must not call Notify
// or Close of the queue or Close of the NIC, and sends word to another goroutine if it has more to
// do. A call for nothing is possible. When Notify returns, the function before f
// is not running any more.
func (q *Queue) Notify(f func()) { q.wake.Notify(f) }

// Wait returns nil as soon as Poll has something to deliver. It arms the queue;
// it allocates nothing once as many goroutines have waited at once before. It
// returns ctx's error when ctx is done, and what Poll would return if the queue
// will deliver nothing more. Safe for concurrent use: all who wait are woken, and
// may find that another one has polled meanwhile.
func (q *Queue) Wait(ctx context.Context) error {
	return q.wake.Wait(ctx, q.ready, func() error { return q.Arm(false) })
}

// ready reports whether an entry is there, or why none will come.
func (q *Queue) ready() (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rooms.Closed() {
		return false, ErrDestroyed
	}
	if _, _, ok := q.next(); ok {
		return true, nil
	}
	return false, q.failure()
}
