package conn

// outgoing is the send side. A buffer is free, or the tail that Write fills, or
// ready to be posted, or posted, or reserved.
type outgoing struct {
	slots
	fill     []int    // bytes in each
	posted   []bool   // given to the queue
	turns    []uint64 // how often each was given back by one who had reserved it
	size     int      // bytes of one message
	free     fifo[int]
	ready    fifo[int]
	tail     int  // none if negative; never empty, but while it is being filled
	corked   bool // WriteBuffers has more for the tail
	filling  bool // bytes are being copied into the tail: it must not be posted
	reserved int  // buffers that ReadFrom and Reserve have
	refused  bool // a Write has met a peer that stopped reading

	inFlight int  // data messages posted and not completed
	controls int  // control messages posted and not completed
	kick     bool // a message has completed: the tail need not wait for more bytes
}

// eager is how many data messages may be in flight without making a message that is
// not full wait for more bytes. Two, so that a header and its body, written one after
// the other, both leave at once.
const eager = 2

// controlID is the id of control messages. Other ids are indexes of buffers.
const controlID = 1 << 32

func newOutgoing(bufs []Buffer, most, peerSize int) outgoing {
	s := newSlots(bufs, most)
	n := len(s.bufs)
	out := outgoing{
		slots:  s,
		fill:   make([]int, n),
		posted: make([]bool, n),
		turns:  make([]uint64, n),
		size:   peerSize,
		free:   newFIFO[int](n),
		ready:  newFIFO[int](n),
		tail:   -1,
	}
	for i, b := range bufs {
		out.size = min(out.size, len(b.Bytes))
		out.free.push(i)
	}
	return out
}

// room returns the unfilled part of the tail, or nil if all buffers are in use.
func (out *outgoing) room() []byte {
	if out.tail < 0 {
		if out.free.len() == 0 {
			return nil
		}
		out.tail = out.free.pop()
		out.fill[out.tail] = 0
	}
	return out.bufs[out.tail].Bytes[out.fill[out.tail]:out.size]
}

// filled notes that n more bytes are in the tail.
func (out *outgoing) filled(n int) {
	out.fill[out.tail] += n
	if out.fill[out.tail] == out.size {
		out.seal()
	}
}

// seal makes the tail ready to be posted.
func (out *outgoing) seal() {
	out.ready.push(out.tail)
	out.tail = -1
}

// unsent reports whether there are bytes that have not been posted.
func (out *outgoing) unsent() bool {
	return out.ready.len() > 0 || out.tail >= 0 && out.fill[out.tail] > 0
}

// left reports whether a FIN must wait for bytes that have not been posted.
func (out *outgoing) left() bool { return out.unsent() || out.filling }

// done notes the completion of a send, and reports whether it had been posted.
func (out *outgoing) done(id uint64) bool {
	if id == controlID && out.controls > 0 {
		out.controls--
		return true
	}
	if id >= uint64(len(out.posted)) || !out.posted[id] {
		return false
	}
	out.posted[id] = false
	out.free.push(int(id))
	out.inFlight--
	out.kick = true
	return true
}

// discard drops what has not been posted.
func (out *outgoing) discard() {
	for out.ready.len() > 0 {
		out.free.push(out.ready.pop())
	}
	if out.tail >= 0 && !out.filling {
		out.free.push(out.tail)
		out.tail = -1
	}
}

// shrink gives back the leased buffers that are free.
func (out *outgoing) shrink() {
	for range out.free.len() {
		if i := out.free.pop(); !out.drop(i) {
			out.free.push(i)
		}
	}
}

// pending reports whether something waits to be sent. It cannot be sent now, or
// flush would have done so; a completion will change that.
func (c *Conn) pending() bool {
	return c.err == nil && !c.finished && (c.out.unsent() && !c.out.filling || c.flow.controlDue(c.out.left()))
}

// flush sends all that may be sent now.
func (c *Conn) flush() {
	if c.err != nil || c.finished || c.aborted {
		return
	}
	for c.flow.credits() > 0 && c.nextReady() {
		i := c.out.ready.pop()
		last := !c.out.left()
		imm := c.flow.sendData(last)
		more := c.flow.credits() > 0 && c.out.ready.len() > 0
		if !c.post(uint64(i), c.out.bufs[i].Slice(c.out.fill[i]), imm, more) {
			return
		}
		c.out.posted[i] = true
		c.out.inFlight++
	}
	c.out.kick = false
	for c.flow.controlDue(c.out.left()) && c.flow.controlAllowed() && c.out.controls < Reserve {
		if !c.post(controlID, Buffer{}, c.flow.sendControl(c.out.left()), false) {
			return
		}
		c.out.controls++
		c.stats.Controls++
	}
}

// nextReady reports whether a message is ready, making one of the tail if it should
// not wait for more bytes.
func (c *Conn) nextReady() bool {
	if c.out.ready.len() > 0 {
		return true
	}
	if !c.out.unsent() || c.out.filling {
		return false
	}
	if !c.flow.finWanted && (c.out.corked || c.out.inFlight >= eager && !c.out.kick) {
		return false
	}
	c.out.seal()
	return true
}

func (c *Conn) post(id uint64, b Buffer, imm uint32, more bool) bool {
	if err := c.q.PostSend(id, b, imm, more); err != nil {
		c.fail(&ResetError{QueuePair, err}, false)
		return false
	}
	c.stats.MessagesSent++
	return true
}
