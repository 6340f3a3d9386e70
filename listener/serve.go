package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// Waits after a temporary error of the listening socket, such as too many open files.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// How long a handshake may take before it is evicted for a newer one. A burst of good
// clients waits in the kernel's queue rather than push each other out. A client that was
// not heard yet has less time: a good one makes a queue pair and sends its first message,
// and only what follows takes a journey there and back.
const (
	minAge    = 300 * time.Millisecond
	silentAge = 100 * time.Millisecond
)

// serve accepts clients until the listener is closed or its socket breaks.
func (l *Listener) serve() {
	defer l.work.Done()
	backoff := time.Duration(0)
	for {
		nc, err := l.tcp.Accept()
		if err == nil {
			backoff = 0
			l.begin(nc)
			continue
		}
		if l.ctx.Err() != nil {
			return
		}
		if !temporary(err) {
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
			l.stop()
			return
		}
		l.report(nil, err)
		backoff = min(max(2*backoff, minBackoff), maxBackoff)
		select {
		case <-time.After(backoff):
		case <-l.ctx.Done():
			return
		}
	}
}

// handshake is one handshake under way.
type handshake struct {
	nc         net.Conn
	began      time.Time
	ctx        context.Context
	cancel     context.CancelCauseFunc
	heard      atomic.Bool
	prev, next *handshake
	listed     bool
}

type handshakeKey struct{}

// Heard is for a Handshake to call, with its context, when the client has said what only
// a good one says. Until then it is among the first to be evicted.
func Heard(ctx context.Context) {
	if h, ok := ctx.Value(handshakeKey{}).(*handshake); ok {
		h.heard.Store(true)
	}
}

// begin starts a handshake, at the price of the oldest if there is no place for it.
func (l *Listener) begin(nc net.Conn) {
	if !l.place() {
		nc.Close()
		return
	}
	h := &handshake{nc: nc, began: time.Now()}
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(l.ctx, handshakeKey{}, h))
	l.count.accepted.Add(1)
	l.list(h)
	l.work.Add(1)
	go l.run(h)
}

// place waits for a place, evicting handshakes that have had their time. It reports
// false if the listener is closed.
func (l *Listener) place() bool {
	for {
		select {
		case l.places <- struct{}{}:
			return true
		default:
		}
		var old <-chan time.Time
		if wait, ok := l.evict(); ok {
			old = time.After(wait)
		}
		select {
		case l.places <- struct{}{}:
			return true
		case <-l.ctx.Done():
			return false
		case <-old:
		}
	}
}

// run makes a connection out of h, or reports why not.
func (l *Listener) run(h *handshake) {
	defer l.work.Done()
	defer func() { <-l.places }()
	remote := h.nc.RemoteAddr()
	ctx, cancel := context.WithTimeout(h.ctx, l.cfg.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { h.nc.Close() })
	c, err := l.cfg.Handshake(ctx, h.nc)
	l.unlist(h)
	if !stop() { // the bootstrap connection is closed
		if err == nil {
			c.Abort()
			err = errors.New("finished too late")
		}
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	h.cancel(nil)
	if err != nil {
		h.nc.Close()
		if l.ctx.Err() == nil {
			l.count.fail(err)
			l.report(remote, err)
		}
		return
	}
	l.count.finished.Add(1)
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		c.Abort()
	}
}

// evict ends the oldest handshake that has had its time, one that was not heard if there
// is one, or returns how long to wait for the first.
func (l *Listener) evict() (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var victim *handshake
	for h := l.oldest; h != nil; h = h.next {
		age, heard := minAge, h.heard.Load()
		if !heard {
			age = silentAge
		}
		left := age - time.Since(h.began)
		switch {
		case left > 0:
			if !ok || left < wait {
				wait, ok = left, true
			}
		case !heard:
			l.end(h)
			return 0, false
		case victim == nil:
			victim = h
		}
	}
	if victim != nil {
		l.end(victim)
		return 0, false
	}
	return wait, ok
}

// end evicts a handshake. Called with mu held.
func (l *Listener) end(h *handshake) {
	l.remove(h)
	h.cancel(ErrEvicted)
}

func (l *Listener) list(h *handshake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.listed = true
	h.prev, l.newest = l.newest, h
	if h.prev != nil {
		h.prev.next = h
	} else {
		l.oldest = h
	}
}

func (l *Listener) unlist(h *handshake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.listed {
		l.remove(h)
	}
}

func (l *Listener) remove(h *handshake) {
	h.listed = false
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.oldest = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		l.newest = h.prev
	}
}

// temporary reports whether accepting may work again later.
func temporary(err error) bool {
	t, ok := err.(interface{ Temporary() bool })
	return ok && t.Temporary()
}
