package nic

import (
	"context"
	"sync"
	"sync/atomic"
)

// Wake is how a completion queue tells its user that something happened. It is
// the queue's CQOwner. The zero Wake is ready for use; its methods are safe for
// concurrent use.
type Wake struct {
	events  atomic.Uint32 // completion events taken from the channel
	overrun atomic.Bool   // the NIC gave the queue up
	waiters waiters

	calling sync.Mutex // held while notify runs
	notify  func()
	stopped bool
}

var _ CQOwner = (*Wake)(nil)

// Events is how many completion events were taken from the channel.
func (w *Wake) Events() uint32 { return w.events.Load() }

// Overrun reports whether the NIC gave the queue up.
func (w *Wake) Overrun() bool { return w.overrun.Load() }

// Notify makes f the function that is called after each completion event, and
// once when the queue or the device fails; nil is none. When Notify returns, the
// function before f is not running any more.
func (w *Wake) Notify(f func()) {
	w.calling.Lock()
	w.notify = f
	w.calling.Unlock()
}

// Wait returns nil as soon as ready reports true, and the error of ready, of arm or
// of ctx as soon as there is one. arm asks the NIC for an event; what came before
// it gives none, so ready is asked once more behind it.
func (w *Wake) Wait(ctx context.Context, ready func() (bool, error), arm func() error) error {
	if ok, err := ready(); ok || err != nil {
		return err
	}
	woken := w.waiters.enter()
	defer w.waiters.leave(woken)
	for {
		if err := arm(); err != nil {
			return err
		}
		if ok, err := ready(); ok || err != nil {
			return err
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Completed takes a completion event.
func (w *Wake) Completed() {
	w.events.Add(1)
	w.call()
}

// Failed takes the word that the queue delivers nothing more: because the
// NIC gave it up (overrun), or the device as a whole.
func (w *Wake) Failed(overrun bool) {
	if overrun {
		w.overrun.Store(true)
	}
	w.call()
}

func (w *Wake) call() {
	w.waiters.wakeAll()
	w.calling.Lock()
	defer w.calling.Unlock()
	if w.notify != nil && !w.stopped {
		w.notify()
	}
}

// Stop returns once no notify function is running, and none will be called.
// Those who still wait are woken.
func (w *Wake) Stop() {
	w.calling.Lock()
	w.stopped = true
	w.calling.Unlock()
	w.waiters.wakeAll()
}
