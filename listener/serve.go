package listener

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Waits after a temporary error of the listening socket, such as too many open files.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
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
	ctx        context.Context
	cancel     context.CancelCauseFunc
	prev, next *handshake
	listed     bool
}

// begin starts a handshake, at the price of the oldest if there is no place for it.
func (l *Listener) begin(nc net.Conn) {
	select {
	case l.places <- struct{}{}:
	default:
		l.evict()
		select {
		case l.places <- struct{}{}:
		case <-l.ctx.Done():
			nc.Close()
			return
		}
	}
	h := &handshake{nc: nc}
	h.ctx, h.cancel = context.WithCancelCause(l.ctx)
	l.list(h)
	l.work.Add(1)
	go l.run(h)
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
	if !stop() && err == nil { // its bootstrap connection is closed: too late
		c.Abort()
		err = ctx.Err()
	}
	if err != nil {
		h.nc.Close()
		if cause := context.Cause(h.ctx); cause == ErrEvicted {
			err = fmt.Errorf("%w: %w", ErrEvicted, err)
		}
		h.cancel(nil)
		if l.ctx.Err() == nil {
			l.report(remote, err)
		}
		return
	}
	h.cancel(nil)
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		c.Close()
	}
}

// evict ends the oldest handshake under way, if there is one.
func (l *Listener) evict() {
	l.mu.Lock()
	h := l.oldest
	if h != nil {
		l.remove(h)
	}
	l.mu.Unlock()
	if h != nil {
		h.cancel(ErrEvicted)
	}
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
