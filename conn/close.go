package conn

import (
	"net"
	"time"
)

// closeWait bounds how long Close itself waits for the peer's NIC to take what was
// posted. On a working network that takes microseconds.
const closeWait = 100 * time.Millisecond

// Close ends both directions: blocked calls return, data that has arrived and was not
// read is dropped, and what was written is still sent, whatever the write deadline.
//
// Close returns once all that was written has been delivered to the peer's memory and
// the queue is destroyed. It does not wait for a peer that gives no credits or is silent
// for 100 ms: then sending goes on in the background, as long as the peer shows signs
// of life at least every Config.Linger, and ends when all is sent or the peer is gone.
// Released tells when. A second Close returns an error with net.ErrClosed inside.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.aborted = c.aborted || c.linger == 0
	close(c.closing)
	c.rd.deadline.stop()
	c.wr.deadline.stop()
	c.alive.stop()
	c.growth.stop()
	c.flow.finWanted = true
	c.stopReading()
	c.wr.signal()
	c.progress()
	c.flush()
	if !c.drained(min(closeWait, c.linger), false) {
		go func() {
			c.mu.Lock()
			c.drained(c.linger, true)
			c.finish()
		}()
		c.mu.Unlock()
		return nil
	}
	return c.opError("close", c.finish())
}

// Abort ends the connection at once, also one that Close left to the background:
// nothing more is sent, and the peer sees a connection reset. It returns the error of
// closing the queue, if it is the one to close it.
func (c *Conn) Abort() error {
	c.mu.Lock()
	c.aborted = true
	if c.closed {
		c.wakeDrain()
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	return c.Close()
}

// CloseWrite ends the stream to the peer, which reads io.EOF after the last byte. It
// does not wait for that. Later and blocked Writes fail with syscall.EPIPE.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.flow.finWanted = true
	c.wr.signal()
	c.progress()
	c.flush()
	c.settle()
	return nil
}

// CloseRead drops what has arrived and what will come. Later and blocked Reads return
// io.EOF, and the peer's Writes fail with syscall.EPIPE.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.stopReading()
	c.progress()
	c.flush()
	c.settle()
	return nil
}

// drained waits until nothing is left to send or nobody is there to send to, and
// reports whether that is so. It gives up when the peer shows no sign of life for as
// long as patience, and at once, if stubborn is false, when the peer gives no credits.
// Called and returns with mu held.
func (c *Conn) drained(patience time.Duration, stubborn bool) bool {
	var w waiting
	defer w.end(&c.wr.spin)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	moves := c.moves
	for {
		if c.moves != moves {
			moves = c.moves
			timer.Reset(patience)
		}
		switch {
		case c.sent() || c.err != nil || c.gone || c.aborted:
			return true
		case !stubborn && c.out.unsent() && c.flow.credits() == 0:
			return false
		}
		if c.progress() {
			continue
		}
		if w.spins(&c.wr.spin) {
			c.relax()
			continue
		}
		if !c.armed && !c.lost {
			c.arm()
			continue
		}
		if c.waitDrain(timer) && c.moves == moves {
			return false
		}
	}
}

// sent reports whether the peer's memory holds all that it will ever want from us.
func (c *Conn) sent() bool {
	if c.flow.finSeen && c.flow.stopSeen {
		return true
	}
	return c.flow.finSent && !c.flow.stopDue() && c.out.inFlight == 0 && c.out.controls == 0
}

// waitDrain parks until woken, or until timer fires, which it reports.
func (c *Conn) waitDrain(timer *time.Timer) (late bool) {
	c.draining = true
	c.mu.Unlock()
	select {
	case <-c.drain:
	case <-timer.C:
		late = true
	}
	c.mu.Lock()
	c.draining = false
	return late
}

// finish gives everything back. Called with mu held, which it releases.
func (c *Conn) finish() error {
	c.finished = true
	control, watching := c.control, c.watching
	c.mu.Unlock()
	err := c.q.Close()
	if control != nil {
		control.Close()
		<-watching
	}
	c.mu.Lock()
	c.freed = true
	c.pins++
	c.unpin()
	c.mu.Unlock()
	return err
}

// unpin ends the use of a buffer without mu. The last one to leave a closed connection
// gives back the buffers.
func (c *Conn) unpin() {
	c.pins--
	if c.pins > 0 || !c.freed {
		return
	}
	c.freed = false
	c.in.dropAll()
	c.out.dropAll()
	if c.release != nil {
		c.release()
	}
	close(c.released)
}
