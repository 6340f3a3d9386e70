package conn

import (
	"net"
	"time"
)

// hangupGrace is how much earlier the end of the control connection may be seen than
// messages that were delivered before it.
const hangupGrace = 50 * time.Millisecond

// Watch hands c the connection that the two sides were introduced over, once that
// exchange is over. As long as c is open it stays open with nothing on it; when the
// peer's process ends, its end tells so at once. Call Watch at most once, before c is
// given to its user. c closes control in any case.
func (c *Conn) Watch(control net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		control.Close()
		return
	}
	c.control = control
	c.watching = make(chan struct{})
	if c.err != nil {
		control.SetReadDeadline(time.Unix(1, 0))
	}
	go c.watch()
}

func (c *Conn) watch() {
	defer close(c.watching)
	defer c.control.Close()
	var b [1]byte
	n, _ := c.control.Read(b[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.violated = true
		c.fail(&ProtocolError{Reason: "bytes on the bootstrap connection after the exchange"}, false)
		return
	}
	c.hangup()
}

// hangup is called when the peer has closed the control connection, or this side has
// done so because the connection has failed or is being released.
func (c *Conn) hangup() {
	c.progress()
	if !c.flow.finSeen && !c.closed && c.err == nil {
		c.mu.Unlock()
		late := time.NewTimer(hangupGrace)
		select {
		case <-late.C:
		case <-c.closing:
		}
		late.Stop()
		c.mu.Lock()
		c.progress()
	}
	c.gone = true
	if !c.flow.finSeen {
		c.fail(&resetError{errHangup}, false)
	}
	c.rd.signal()
	c.wr.signal()
	c.wakeDrain()
}
