package conn

import (
	"errors"
	"io"
	"net"
	"syscall"
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
	if tcp := tcpOf(control); tcp != nil {
		_ = boundUnacknowledged(tcp, c.alive.silence()) // as good as without
	}
	c.watchQueue()
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
	n, err := c.control.Read(b[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.violated = true
		c.fail(&ProtocolError{Reason: "bytes on the bootstrap connection after the exchange"}, false)
		return
	}
	c.hangup(err)
}

// hangup is called when the control connection has ended with err: the peer or its kernel
// has closed it, nobody answers on it any more, or this side has ended it because the
// connection has failed or is being released.
func (c *Conn) hangup(err error) {
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		err = errHangup
	}
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
	if !c.flow.finSeen && c.err == nil {
		c.fail(&ResetError{Bootstrap, err}, false)
	}
	c.rd.signal()
	c.wr.signal()
	c.wakeDrain()
}
