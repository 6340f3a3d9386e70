package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Waits after a temporary error of the listening socket, such as too many open files.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// minAge is how long a handshake may take before it is evicted for a newer one. A burst
// of good clients waits in the kernel's queue that long rather than push each other out.
const minAge = 200 * time.Millisecond

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
	prev, next *handshake
	listed     bool
}

// begin starts a handshake, at the price of the oldest if there is no place for it.
func (l *Listener) begin(nc net.Conn) {
	if !l.place() {
		nc.Close()
		return
	}
	h := &handshake{nc: nc, began: time.Now()}
	h.ctx, h.cancel = context.WithCancelCause(l.ctx)
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
			l.report(remote, err)
		}
		return
	}
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		c.Abort()
	}
}

// evict ends the oldest handshake under way, or returns how long that must wait.
func (l *Listener) evict() (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.oldest
	if h == nil {
		return 0, false
	}
	if wait := minAge - time.Since(h.began); wait > 0 {
		return wait, true
	}
	l.remove(h)
	h.cancel(ErrEvicted)
	return 0, false
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
