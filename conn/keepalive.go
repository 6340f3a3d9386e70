package conn

import (
	"errors"
	"net"
	"time"
)

// Defaults of keep-alive, those of package net.
const (
	DefaultKeepAliveIdle     = 15 * time.Second
	DefaultKeepAliveInterval = 15 * time.Second
	DefaultKeepAliveCount    = 9
)

var errSilent = errors.New("the NIC has completed nothing for too long")

// keepalive notices that the queue pair, or the NIC, is dead although nothing is sent.
// When nothing has moved for a while it posts a probe. The NIC repeats that by itself
// and reports a peer's that does not answer, so one is enough; and a NIC that reports
// nothing at all is given up. Guarded by Conn.mu.
type keepalive struct {
	on       bool
	idle     time.Duration // without a sign of life, before a probe
	interval time.Duration // times count is how long a completion may stay away after that
	count    int

	timer   *time.Timer // nil until Watch
	moves   int         // Conn.moves at the last look
	since   time.Time   // when that was seen first
	done    int         // Conn.done at the last look
	waiting time.Time   // when that was seen first, or nothing was posted last
}

// set takes over config as net.TCPConn does: 0 is the default, negative changes nothing.
func (k *keepalive) set(config net.KeepAliveConfig) {
	set(&k.idle, config.Idle, DefaultKeepAliveIdle)
	set(&k.interval, config.Interval, DefaultKeepAliveInterval)
	set(&k.count, config.Count, DefaultKeepAliveCount)
	k.on = config.Enable
}

func set[T ~int | ~int64](field *T, v, initial T) {
	if v == 0 || v < 0 && *field == 0 {
		v = initial
	}
	if v > 0 {
		*field = v
	}
}

// patience is how long a completion may stay away beyond idle.
func (k *keepalive) patience() time.Duration { return k.interval * time.Duration(k.count) }

// silence is how long the bootstrap connection may be silent; 0 is as long as the system lets it.
func (k *keepalive) silence() time.Duration {
	if !k.on {
		return 0
	}
	return k.idle + k.patience()
}

// watchQueue begins to look after the queue pair, or begins anew.
func (c *Conn) watchQueue() {
	k := &c.alive
	k.stop() // what is set may have changed
	if !k.on || c.closed || c.err != nil {
		return
	}
	now := time.Now()
	k.moves, k.since, k.done, k.waiting = c.moves, now, c.done, now
	k.timer = time.AfterFunc(k.idle, c.tick)
}

func (k *keepalive) stop() {
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// tick looks whether anything has moved.
func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.alive
	if k.timer == nil || c.closed || c.err != nil {
		return
	}
	c.progress()
	c.settle()
	if c.err != nil {
		return
	}
	now := time.Now()
	if c.moves != k.moves {
		k.moves, k.since = c.moves, now
	}
	posted := c.out.inFlight+c.out.controls > 0
	if c.done != k.done || !posted {
		k.done, k.waiting = c.done, now
	}
	next := k.idle
	if posted {
		left := k.idle + k.patience() - now.Sub(k.waiting)
		if left <= 0 {
			c.fail(&ResetError{QueuePair, errSilent}, false)
			return
		}
		next = min(next, left)
	} else if left := k.idle - now.Sub(k.since); left > 0 {
		next = left
	} else if c.probe() {
		next = min(next, k.patience())
	}
	k.timer.Reset(next)
}

// probe posts a message that says nothing, and reports whether it could. Its completion
// is waited for although no call may be blocked then.
func (c *Conn) probe() bool {
	if c.finished || c.out.left() || c.flow.credits() == 0 {
		return false
	}
	if !c.post(controlID, Buffer{}, c.flow.sendProbe(), false) {
		return false
	}
	c.out.controls++
	c.stats.Probes++
	c.arm()
	return true
}
