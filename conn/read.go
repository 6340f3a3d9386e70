package conn

import (
	"io"
	"net"
	"os"
)

// copyLocked is how many bytes are copied with mu held, as giving it up and taking
// it again would cost more.
const copyLocked = 1024

// Read reads what has arrived, as much as fits, and blocks while nothing has. After
// the last byte it returns io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	c.rd.seat.Lock()
	defer c.rd.seat.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 && !c.closed {
		return 0, nil
	}
	if err := c.awaitData(); err != nil {
		return 0, c.opError("read", err)
	}
	n := 0
	for n < len(p) && c.in.arrived.len() > 0 {
		s := c.in.arrived.pop()
		m := c.copy(p[n:], c.in.bytes(s))
		n += m
		s.start += m
		c.keep(s)
	}
	c.flush()
	c.settle()
	return n, nil
}

// WriteTo writes everything to w until the end of the stream, straight from the
// receive buffers. What w does not take stays in the stream. While w is being
// written to, other calls of Read are served.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		n, err := c.writeNext(w)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// writeNext writes what is left of one message to w. io.EOF is the end of the stream.
func (c *Conn) writeNext(w io.Writer) (n int, err error) {
	s, err := c.borrow()
	if err != nil {
		return 0, c.opError("writeto", err)
	}
	defer func() { // also if w panics
		c.mu.Lock()
		defer c.mu.Unlock()
		s.start += n
		c.giveBack(s)
	}()
	p := c.in.bytes(s)
	m, err := w.Write(p)
	if m < 0 || m > len(p) {
		return 0, errInvalidWrite
	}
	if m < len(p) && (err == nil || err == io.EOF) {
		err = io.ErrShortWrite
	}
	return m, err
}

// awaitData blocks until a byte can be read. Called with the seat and mu held.
func (c *Conn) awaitData() error {
	var w waiting
	defer w.end(&c.rd.spin)
	for {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.rd.deadline.expired:
			return os.ErrDeadlineExceeded
		case c.in.stopped:
			return io.EOF
		case c.in.arrived.len() > 0:
			return nil
		case c.flow.finSeen:
			return io.EOF
		case c.err != nil:
			return c.err
		}
		c.growIfLent()
		c.wait(&c.rd, &w)
	}
}

// borrow takes the next message out of the stream, without copying.
func (c *Conn) borrow() (span, error) {
	c.rd.seat.Lock()
	defer c.rd.seat.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitData(); err != nil {
		return span{}, err
	}
	c.pins++
	c.in.borrowed++
	return c.in.arrived.pop(), nil
}

// giveBack ends the use of a borrowed message. Called with mu held.
func (c *Conn) giveBack(s span) {
	c.in.borrowed--
	c.keep(s)
	c.flush()
	c.settle()
	c.unpin()
}

// copy copies between a buffer and a caller's slice. Called with a seat and mu held;
// mu is given up for a long copy, so neither slice may be in a list meanwhile.
func (c *Conn) copy(dst, src []byte) int {
	c.stats.BytesCopied += uint64(min(len(dst), len(src)))
	if min(len(dst), len(src)) <= copyLocked {
		return copy(dst, src)
	}
	c.pins++
	c.mu.Unlock()
	n := copy(dst, src)
	c.mu.Lock()
	c.unpin()
	return n
}
