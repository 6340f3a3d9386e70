package conn

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Write takes all of p, unless it returns an error, and never keeps it. The bytes
// leave at once if few messages are in flight; else small Writes share a message that
// leaves when an earlier one has been delivered. Write blocks while all send buffers
// are in use. An error comes with the number of bytes taken: these are sent, in
// order.
//
// Once the peer has stopped reading, Write fails with syscall.EPIPE. As with TCP the
// first Write to come too late is not told so: its bytes are lost as those before
// it, and those who close in turn, such as crypto/tls, meet no error.
func (c *Conn) Write(p []byte) (int, error) {
	c.wr.seat.Lock()
	defer c.wr.seat.Unlock()
	n, err := c.write(p, false)
	return n, c.opError("write", err)
}

// WriteBuffers is Write of the bytes of all of bufs, which it does not change, with
// nothing in between and in as few messages as they fit in.
func (c *Conn) WriteBuffers(bufs net.Buffers) (int64, error) {
	c.wr.seat.Lock()
	defer c.wr.seat.Unlock()
	var total int64
	for i := range max(len(bufs), 1) {
		var p []byte
		if i < len(bufs) {
			p = bufs[i]
		}
		n, err := c.write(p, i < len(bufs)-1)
		total += int64(n)
		if err != nil {
			return total, c.opError("write", err)
		}
	}
	return total, nil
}

// ReadFrom writes everything r has until io.EOF, which it reads straight into the send
// buffers. While it reads from r, other calls of Write are served.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		i, ok, err := c.reserve()
		if err != nil {
			return total, c.opError("readfrom", err)
		}
		if !ok {
			// All but one buffer must stay free for other writers.
			n, err := io.Copy(struct{ io.Writer }{c}, r)
			return total + n, err
		}
		n, rerr, err := c.readNext(i, r)
		total += int64(n)
		if err != nil {
			return total, c.opError("readfrom", err)
		}
		if rerr == io.EOF {
			return total, nil
		}
		if rerr != nil {
			return total, rerr
		}
	}
}

// write is Write with the seat held. more says that the caller has more to write.
func (c *Conn) write(p []byte, more bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress()
	var w waiting
	defer w.end(&c.wr.spin)
	n := 0
	err := c.writable()
	if c.stopped(err) && !c.out.refused && len(p) > 0 {
		c.out.refused = true
		return len(p), nil
	}
	for ; ; err = c.writable() {
		if err != nil || n == len(p) {
			break
		}
		room := c.out.room()
		if room == nil {
			if c.moreSends() {
				continue
			}
			c.flush()
			if c.flow.credits() == 0 {
				c.stats.CreditWaits++
			}
			c.wait(&c.wr, &w)
			continue
		}
		c.out.filling = true
		m := c.copy(room, p[n:])
		c.out.filling = false
		n += m
		c.written(m)
	}
	c.out.refused = c.out.refused || c.stopped(err)
	c.out.corked = more && err == nil
	if !c.out.corked {
		c.flush()
		c.settle()
	}
	return n, err
}

// written is called when n bytes have been put into the tail.
func (c *Conn) written(n int) {
	if c.out.fill[c.out.tail] > 0 {
		c.stats.Coalesced++
	}
	c.out.filled(n)
	c.stats.BytesSent += uint64(n)
	if c.flow.stopSeen {
		c.out.discard()
	}
	if c.out.ready.len() >= together || c.closed {
		c.flush()
	}
}

// together is how many full messages of one Write leave at once: a NIC is told of them
// all with one doorbell.
const together = 4

// writable returns the error that a Write must fail with now.
func (c *Conn) writable() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.wr.deadline.expired:
		return os.ErrDeadlineExceeded
	case c.flow.finWanted:
		return syscall.EPIPE
	case c.err != nil:
		return c.err
	case c.flow.stopSeen:
		return syscall.EPIPE
	case c.gone:
		return &ResetError{Bootstrap, errHangup}
	}
	return nil
}

// stopped reports whether err, of writable, says that the peer has stopped reading.
func (c *Conn) stopped(err error) bool { return err == syscall.EPIPE && !c.flow.finWanted }

// reserve waits for a free buffer and takes it. ok is false if there is none that
// ReadFrom may keep while it waits for its reader.
func (c *Conn) reserve() (i int, ok bool, err error) {
	c.wr.seat.Lock()
	defer c.wr.seat.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	var w waiting
	defer w.end(&c.wr.spin)
	for {
		if err := c.writable(); err != nil {
			return 0, false, err
		}
		if c.out.reserved >= c.out.have()-1 && !c.moreSends() {
			return 0, false, nil
		}
		if c.out.free.len() > 0 || c.moreSends() {
			c.out.reserved++
			c.pins++
			return c.out.free.pop(), true, nil
		}
		c.wait(&c.wr, &w)
	}
}

// readNext reads once from r into the reserved buffer i and writes what came. rerr is
// the error of r.
func (c *Conn) readNext(i int, r io.Reader) (n int, rerr, err error) {
	defer func() { // also if r panics
		err = c.commit(i, n)
		if err != nil {
			n = 0
		}
	}()
	m, rerr := r.Read(c.out.bufs[i].Bytes[:c.out.size])
	if m < 0 || m > c.out.size {
		return 0, errInvalidRead, nil
	}
	return m, rerr, nil
}

// commit writes the n bytes in the reserved buffer i and gives the buffer back.
func (c *Conn) commit(i, n int) error {
	c.wr.seat.Lock()
	defer c.wr.seat.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.unpin()
	c.out.reserved--
	if err := c.writable(); err != nil || n == 0 {
		c.out.free.push(i)
		return err
	}
	if c.out.tail >= 0 && c.out.fill[c.out.tail]+n <= c.out.size {
		c.stats.BytesCopied += uint64(copy(c.out.room(), c.out.bufs[i].Bytes[:n]))
		c.out.free.push(i)
	} else {
		if c.out.tail >= 0 {
			c.out.seal()
		}
		c.out.tail, c.out.fill[i] = i, 0
	}
	c.written(n)
	c.flush()
	c.settle()
	return nil
}

// unreserve gives a reserved buffer back. A Write may be waiting for it. Called with mu
// held.
func (c *Conn) unreserve(i int) {
	c.out.reserved--
	c.out.free.push(i)
	c.wr.signal()
	c.unpin()
}
