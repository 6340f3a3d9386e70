package conn

import (
	"fmt"
	"time"
)

// notified is called by the queue after an armed event, on a goroutine of the queue.
func (c *Conn) notified() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	c.progress()
	if c.rd.parked || c.wr.parked || c.draining {
		c.arm()
	}
	c.settle()
}

// settle makes sure that what could not be sent yet goes out when it can be,
// although no caller may be there then.
func (c *Conn) settle() {
	if c.pending() {
		c.arm()
	}
}

// arm asks for an event unless one is on its way, and looks once more, since
// completions that are there already need not cause one.
func (c *Conn) arm() {
	if c.armed || c.lost || c.finished {
		return
	}
	c.armed = true
	if err := c.q.Arm(); err != nil {
		c.lose(err)
		return
	}
	c.progress()
}

// progress handles the completions that are there and sends what they allow to be
// sent. It reports whether there were any.
func (c *Conn) progress() bool {
	some := false
	for !c.lost && !c.finished {
		n, err := c.q.Poll(c.batch[:])
		for i := range n {
			c.handle(&c.batch[i])
		}
		some = some || n > 0
		if err != nil {
			c.lose(err)
			return true
		}
		if n < len(c.batch) {
			break
		}
	}
	if some {
		c.flush()
	}
	return some
}

func (c *Conn) handle(e *Completion) {
	var known bool
	if e.Receive {
		known = c.in.taken(e.ID)
	} else {
		known = c.out.done(e.ID)
	}
	switch {
	case !known:
		c.fail(&ResetError{QueuePair, fmt.Errorf("completion of entry %#x, which was not posted", e.ID)}, false)
	case e.Err != nil:
		c.fail(&ResetError{QueuePair, e.Err}, e.Flushed)
	case e.Receive:
		c.receive(int(e.ID), e)
	default:
		c.moves++
		c.done++
		c.wr.signal()
		c.wakeDrain()
	}
}

// receive takes in a message that arrived in receive buffer i.
func (c *Conn) receive(i int, e *Completion) {
	if c.violated {
		return
	}
	n, stopped := int(e.Bytes), c.flow.stopSeen
	if err := c.check(i, e); err != nil {
		c.violated = true
		c.fail(err, false)
		return
	}
	c.moves++
	c.granted()
	switch {
	case n == 0 && isData(n, e.Imm) && c.flow.shrink():
		c.in.keepBack(i)
	case n == 0:
		if c.repost(i) && isData(n, e.Imm) {
			c.flow.free()
		}
	default:
		c.in.push(span{slot: i, end: n})
		c.stats.BytesReceived += uint64(n)
	}
	c.stats.MessagesReceived++
	c.growIfQuick()
	if c.flow.stopSeen && !stopped {
		c.out.discard()
		c.wr.signal()
	}
	c.rd.signal()
	c.wakeDrain()
}

// check is the checks of a message, and its credits.
func (c *Conn) check(i int, e *Completion) error {
	switch {
	case !e.HasImm:
		return &ProtocolError{Reason: "message without immediate data"}
	case e.Bytes > uint32(len(c.in.bufs[i].Bytes)):
		return &ProtocolError{Reason: "message longer than its receive"}
	}
	return c.flow.receive(int(e.Bytes), e.Imm)
}

// fail ends the connection with err. The first reason stays, except that a flush
// error, which only follows from another, gives way to a better one.
func (c *Conn) fail(err error, flushed bool) {
	if c.err != nil && (!c.errFlushed || flushed) {
		return
	}
	c.err, c.errFlushed = err, flushed
	c.rd.signal()
	c.wr.signal()
	c.wakeDrain()
	if c.control != nil {
		// Ends watch, which closes the control connection: that tells the peer.
		c.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// lose is fail for a queue that has stopped working.
func (c *Conn) lose(err error) {
	c.lost = true
	c.fail(&ResetError{QueuePair, err}, false)
}

func (c *Conn) wakeDrain() {
	if c.draining {
		select {
		case c.drain <- struct{}{}:
		default:
		}
	}
}
