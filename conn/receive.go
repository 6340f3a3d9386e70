package conn

// incoming is the receive side: which buffers are posted and what has arrived.
type incoming struct {
	slots
	posted   []bool
	turns    []uint64 // how often each was given back by a borrower
	arrived  fifo[span]
	borrowed int   // messages that are lent
	spare    []int // buffers that are not posted, since the window has shrunk
	stopped  bool  // the bytes are not wanted any more
}

// span is the bytes of one message that have not been read.
type span struct {
	slot, start, end int
}

func newIncoming(bufs []Buffer, most int) incoming {
	s := newSlots(bufs, most)
	n := len(s.bufs)
	return incoming{slots: s, posted: make([]bool, n), turns: make([]uint64, n), arrived: newFIFO[span](n)}
}

// taken notes that the queue gave back a buffer, and reports whether it had it.
func (in *incoming) taken(id uint64) bool {
	if id >= uint64(len(in.posted)) || !in.posted[id] {
		return false
	}
	in.posted[id] = false
	return true
}

// keepBack gives up buffer i, or keeps it until it is needed.
func (in *incoming) keepBack(i int) {
	if !in.drop(i) {
		in.spare = append(in.spare, i)
	}
}

func (in *incoming) popSpare() int {
	i := in.spare[len(in.spare)-1]
	in.spare = in.spare[:len(in.spare)-1]
	return i
}

func (in *incoming) push(s span) { in.arrived.push(s) }

func (in *incoming) bytes(s span) []byte { return in.bufs[s.slot].Bytes[s.start:s.end] }

// keep puts back what is left of the span that was popped last. If that is nothing it
// posts the receive again, and lets the peer use it.
func (c *Conn) keep(s span) {
	if s.start < s.end {
		c.in.arrived.pushFront(s)
	} else if c.repost(s.slot) {
		c.flow.free()
	}
}

// repost posts receive i again, unless there is no point in it any more. Of those that
// are spare one takes the place of a leased one.
func (c *Conn) repost(i int) bool {
	if c.err != nil || c.finished {
		return false
	}
	if len(c.in.spare) > 0 && c.in.drop(i) {
		i = c.in.popSpare()
	}
	return c.postReceive(i)
}

func (c *Conn) postReceive(i int) bool {
	if err := c.q.PostReceive(uint64(i), c.in.bufs[i]); err != nil {
		c.fail(&ResetError{QueuePair, err}, false)
		return false
	}
	c.in.posted[i] = true
	return true
}

// stopReading tells the peer that no more is wanted. What has arrived, and what is on
// its way, is just left where it is.
func (c *Conn) stopReading() {
	c.in.stopped = true
	c.flow.stopWanted = true
	c.rd.signal()
}
