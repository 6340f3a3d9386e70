package conn

import "time"

const (
	// growWithin is how soon the peer must use up a window for it to grow: a network of
	// this kind takes microseconds, and who sends rarely has no use for more.
	growWithin = 10 * time.Millisecond

	// growAgain is how long nothing is leased after that has failed.
	growAgain = time.Second

	// idleAfter is how long nothing may be written before a side gives back what it leased,
	// and what the peer did; returnEvery is the time between the steps of that.
	idleAfter   = 5 * time.Second
	returnEvery = 100 * time.Millisecond
)

// growth is what a connection has beyond the buffers that it begins with. Guarded by
// Conn.mu.
//
// Buffers to send from are leased when a Write finds none and given back after idleness:
// the peer knows nothing of them. Receives are more work, as the peer was told of them and
// no queue pair takes one back. So the side that has not written for a while returns them:
// it sends probes, and the other keeps the receives that these arrive in.
type growth struct {
	lease   func() (*Lease, error) // nil if nothing ever grows
	timer   *time.Timer            // runs as long as there is something to give back
	usedUp  time.Time              // when the peer had used up its window last
	refused time.Time              // when lease failed last
	have    int                    // buffers at the last look
	sent    uint64                 // Stats.BytesSent then
	wide    bool                   // the peer's window has grown
	owed    int                    // probes that are still to be sent to return that
}

// more leases one more buffer for s, if there can be one.
func (c *Conn) more(s *slots) (i int, ok bool) {
	g := &c.growth
	if g.lease == nil || len(s.vacant) == 0 || !g.refused.IsZero() && time.Since(g.refused) < growAgain {
		return 0, false
	}
	l, err := g.lease()
	if err != nil {
		g.refused = time.Now()
		c.stats.LeasesRefused++
		return 0, false
	}
	c.lookLater()
	return s.add(l), true
}

// moreSends gets a buffer for a Write that has found none.
func (c *Conn) moreSends() bool {
	i, ok := c.more(&c.out.slots)
	if ok {
		c.out.free.push(i)
	}
	return ok
}

// growIfQuick is called when data has arrived. If the peer has used up its window, and did so
// last a short while ago, the window grows: to all that there may be, since so many more make a
// report due, which half of them might not.
func (c *Conn) growIfQuick() {
	if c.flow.own == c.flow.most || !c.flow.starved() {
		return
	}
	last := c.growth.usedUp
	c.growth.usedUp = time.Now()
	if c.growth.usedUp.Sub(last) < growWithin && c.err == nil {
		c.grow(c.flow.most - c.flow.own)
	}
}

// growIfLent lets the window grow when the peer can send no more, as what was borrowed
// holds the receives. As long as fewer than half of all that there may be are borrowed, that
// many more make a report due.
func (c *Conn) growIfLent() {
	if c.in.borrowed > 0 && c.flow.own < c.flow.most && c.flow.starved() && c.err == nil && !c.finished {
		c.grow(c.flow.most - c.flow.own)
		c.flush()
	}
}

// grow posts n more receives, or as many as there is memory for, if there may be more now.
func (c *Conn) grow(n int) {
	if !c.flow.mayGrow(n) {
		return
	}
	for len(c.in.spare) < n {
		i, ok := c.more(&c.in.slots)
		if !ok {
			break
		}
		c.in.spare = append(c.in.spare, i)
	}
	n = min(n, len(c.in.spare))
	if !c.flow.mayGrow(n) {
		return
	}
	for range n {
		if !c.postReceive(c.in.popSpare()) {
			return
		}
		c.flow.grow(1)
	}
}

// granted takes note that the peer's window may have grown.
func (c *Conn) granted() {
	if !c.growth.wide && c.flow.credits() > c.flow.window {
		c.growth.wide = true
		c.lookLater()
	}
}

// lookLater makes sure that idle will look.
func (c *Conn) lookLater() {
	if g := &c.growth; g.timer == nil && !c.closed {
		g.sent = c.stats.BytesSent
		g.timer = time.AfterFunc(idleAfter, c.idle)
	}
}

func (g *growth) stop() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

// idle gives back what an idle connection does not need.
func (c *Conn) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &c.growth
	if g.timer == nil || c.closed || c.err != nil {
		return
	}
	c.progress()
	for range c.in.spare {
		if i := c.in.popSpare(); !c.in.drop(i) {
			c.in.spare = append(c.in.spare, i)
		}
	}
	returned := false
	if g.sent == c.stats.BytesSent && !c.out.left() {
		c.out.shrink()
		returned = c.giveReceivesBack()
	} else {
		g.sent, g.owed = c.stats.BytesSent, 0
	}
	c.settle()
	have := c.in.have() + c.out.have()
	quick := returned || have < g.have
	g.have = have
	switch {
	case c.err != nil:
	case !g.wide && !c.in.grown() && !c.out.grown():
		g.timer = nil
	case quick:
		g.timer.Reset(returnEvery)
	default:
		g.timer.Reset(idleAfter)
	}
}

// giveReceivesBack sends some of the probes that return the peer's receives, and reports
// whether it has. There is one for each receive that the peer may have posted: so those that
// stay are exchanged for its own too.
func (c *Conn) giveReceivesBack() (some bool) {
	g := &c.growth
	if !g.wide {
		return false
	}
	if g.owed == 0 {
		g.owed = c.flow.widest + Reserve
	}
	for g.owed > 0 && c.out.inFlight == 0 && c.out.controls < Reserve && c.probe() {
		g.owed--
		some = true
	}
	g.wide = g.owed > 0 && !c.flow.finSent && !c.flow.stopSeen
	return some
}
