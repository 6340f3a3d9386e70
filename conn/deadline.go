package conn

import (
	"net"
	"time"
)

// deadline is the deadline of one direction. Guarded by Conn.mu.
type deadline struct {
	at      time.Time // zero: none
	expired bool
	timer   *time.Timer
}

// SetDeadline sets the deadlines of both directions. It acts on calls that are
// blocked now and on later ones; the zero time means none. A time that is past fails
// reads at once, also if data has arrived; that data is not lost.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, &c.rd, &c.wr) }

// SetReadDeadline sets the deadline of Read and WriteTo. See SetDeadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.rd) }

// SetWriteDeadline sets the deadline of Write, WriteBuffers and ReadFrom. A call
// that it ends returns how many bytes it has taken; these are sent, and the
// connection stays usable. See SetDeadline.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.wr) }

func (c *Conn) setDeadline(t time.Time, halves ...*half) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, h := range halves {
		c.arrange(h, t)
	}
	return nil
}

func (c *Conn) arrange(h *half, t time.Time) {
	d := &h.deadline
	d.stop()
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expired = true
		h.signal()
		return
	}
	d.at = time.Now().Add(left) // from here on on the monotonic clock
	if d.timer == nil {
		d.timer = time.AfterFunc(left, func() { c.expire(h) })
	} else {
		d.timer.Reset(left)
	}
}

// expire is called by the timer, maybe for a deadline that has been moved since.
func (c *Conn) expire(h *half) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := &h.deadline; !d.at.IsZero() && !time.Now().Before(d.at) {
		d.expired = true
		h.signal()
	}
}

func (d *deadline) stop() {
	d.at, d.expired = time.Time{}, false
	if d.timer != nil {
		d.timer.Stop()
	}
}
