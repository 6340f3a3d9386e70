package softnic

import (
	"fmt"
	"slices"
	"time"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// holdBack keeps a completion back if the faults want it late or withheld, or
// if one before it in its queue is.
func (n *NIC) holdBack(c *cq, e prm.Completion) bool {
	f := &n.faults
	if n.holdAll || c.silent || f.Withhold > 0 && n.random.Float64() < f.Withhold {
		if !n.holdAll {
			c.silent = true
		}
		n.count.HeldCompletions++
		n.held[c] = append(n.held[c], kept(e))
		return true
	}
	late := f.Late > 0 && n.random.Float64() < f.Late
	if !late && len(c.delayed) == 0 {
		return false
	}
	due := time.Now()
	if late {
		n.count.LateCompletions++
		due = due.Add(f.LateBy)
	}
	c.delayed = append(c.delayed, delayedCompletion{due, kept(e)})
	n.late[c] = true
	return true
}

// kept is a completion that stays as it is: its data is the queue pair's.
func kept(e prm.Completion) prm.Completion {
	e.Inline = slices.Clone(e.Inline)
	return e
}

// releaseLate writes the late completions that are due, in the order of each queue.
func (n *NIC) releaseLate(now time.Time) (did int) {
	for c := range n.late {
		i := 0
		for i < len(c.delayed) && !c.delayed[i].due.After(now) {
			c.write(c.delayed[i].e)
			i++
		}
		did += i
		if c.delayed = append(c.delayed[:0], c.delayed[i:]...); len(c.delayed) == 0 {
			delete(n.late, c)
		}
	}
	return did
}

// SetFaults replaces the impairments of completions from now on, and those of
// packets too. Port and device faults in it are not looked at: they are
// scheduled by New only.
func (n *NIC) SetFaults(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	n.lock()
	n.faults = f.withDefaults()
	n.unlock()
	for _, l := range n.links {
		if err := l.Set(f.impairments(0)); err != nil {
			return fmt.Errorf("set faults: %w", err)
		}
	}
	return nil
}

func (f Faults) withDefaults() Faults {
	if f.LateBy == 0 {
		f.LateBy = defaultLateBy
	}
	return f
}

const defaultLateBy = time.Millisecond

// HoldCompletions withholds every completion, of all queues, until
// ReleaseCompletions.
func (n *NIC) HoldCompletions() {
	n.lock()
	defer n.unlock()
	n.holdAll = true
}

// ReleaseCompletions writes the completions that HoldCompletions or the fault
// Withhold kept back, and ends the withholding. Where one before them is late they
// come after it.
func (n *NIC) ReleaseCompletions() {
	n.lock()
	defer n.unlock()
	n.holdAll = false
	for c, held := range n.held {
		delete(n.held, c)
		c.silent = false
		for _, e := range held {
			if len(c.delayed) > 0 {
				c.delayed = append(c.delayed, delayedCompletion{n.now, e})
				continue
			}
			c.write(e)
		}
	}
}

// SetPort takes the port down or up. While it is down every packet is lost in
// both directions, those of the NIC to itself included. Every open file gets
// PORT_ERR or PORT_ACTIVE.
func (n *NIC) SetPort(up bool) {
	n.lock()
	defer n.unlock()
	if n.portUp == up || n.failed {
		return
	}
	n.portUp = up
	kind := uint32(uapi.EventPortErr)
	if up {
		kind = uapi.EventPortActive
	}
	for f := range n.files {
		n.raiseAsync(f.async, event{element: portNumber, kind: kind})
	}
}

// Fail is the fatal error of the device, as its removal from a running kernel. It
// does no more work: the asynchronous event file gives DEVICE_FATAL and nothing
// after it, completion channels give EIO, commands fail with EIO but for those that
// destroy, and doorbells do nothing. There is no way back.
func (n *NIC) Fail() {
	n.lock()
	defer n.unlock()
	n.fail()
}

func (n *NIC) fail() {
	if n.failed {
		return
	}
	n.failed = true
	n.timer.Stop()
	for f := range n.files {
		n.raiseAsync(f.async, event{kind: uapi.EventDeviceFatal})
		f.removeChannels()
		f.bury()
	}
}

// raise raises an event.
func (n *NIC) raise(f *eventFile, e event) {
	if f.raise(e) && n.tracing() {
		n.traceEvent(f, e)
	}
}

// raiseAsync raises an asynchronous event, if there is a file that wants it.
func (n *NIC) raiseAsync(f *eventFile, e event) {
	if f == nil {
		return
	}
	n.count.AsyncEvents++
	n.raise(f, e)
}
