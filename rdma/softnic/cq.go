package softnic

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// cq is a completion queue.
type cq struct {
	nic       *NIC
	mem       memory
	origin    origin
	cqn       uint32
	user      uint64
	uar       *uar
	channel   *eventFile // nil: no events
	async     *eventFile
	buf       uint64
	record    uint64
	entries   uint32 // a power of two
	entrySize uint32
	ignore    bool  // overruns are not looked for
	charge    int64 // pinned for the ring
	fixed     int64 // pinned for the record
	users     int   // queue pairs, counted once for each of their two queues

	produced uint32 // completions written, free running
	consumed uint32 // the driver's counter, 24 bits, when it was last read
	failed   bool   // overran: nothing is written any more

	unheard       bool // the first arm is yet to say where the sequence starts
	armed         bool
	armSolicited  bool
	armedWith     uint32 // the value of the record
	sequence      uint32 // events raised; arms must carry its low two bits
	announced     uint32 // produced at the last event
	lastSolicited uint32 // produced after the last solicited or failed completion
	events        uint32 // raised, for the destroy command
	asyncEvents   uint32

	qps map[*qp]bool // that complete here

	delayed []delayedCompletion // held back by faults, in order
	silent  bool                // faults withhold everything from now on
}

type delayedCompletion struct {
	due time.Time
	e   prm.Completion
}

// complete writes a completion, now or when the faults let it through.
func (c *cq) complete(e prm.Completion) {
	if c.nic.holdBack(c, e) {
		return
	}
	c.write(e)
}

// write puts a completion into the ring and raises the event it is armed for.
func (c *cq) write(e prm.Completion) {
	if c.failed {
		return
	}
	if !c.hasRoom() {
		c.overrun()
		return
	}
	n := c.nic
	e.Owner = c.owner()
	e.Timestamp = uint64(n.now.Sub(n.epoch))
	if !c.put(&e) {
		n.warn("completion queue memory is not mapped", "cqn", c.cqn)
		c.fail()
		return
	}
	c.produced++
	n.countCompletion(e)
	important := e.Solicited || e.Opcode.IsError()
	if important {
		c.lastSolicited = c.produced
	}
	if c.armed && (important || !c.armSolicited) {
		c.raise()
	}
}

// size is how many bytes the ring has.
func (c *cq) size() uint64 { return uint64(c.entries) * uint64(c.entrySize) }

// owner is the owner bit of the entry at the producer's index.
func (c *cq) owner() uint8 { return uint8(c.produced / c.entries & 1) }

// put writes the entry at the producer's index: its last word last.
func (c *cq) put(e *prm.Completion) bool {
	at := c.buf + uint64(c.produced&(c.entries-1))*uint64(c.entrySize)
	image := c.nic.cqe[prm.CQESize:]
	prm.PutCQE(image, *e)
	image, to := image[:prm.CQELastWord], at
	if c.entrySize == 2*prm.CQESize {
		at += prm.CQESize
		to = at
	}
	if e.Format == prm.CQEInline64 {
		image, to = c.nic.cqe[:prm.CQESize+prm.CQELastWord], at-prm.CQESize
		clear(image[copy(image, e.Inline):prm.CQESize])
	}
	if c.mem.Write(to, image) != nil || !c.mem.Store32(at+prm.CQELastWord, prm.LastWord(*e)) {
		return false
	}
	if c.nic.tracing() {
		c.traceEntry(e, image, to)
	}
	return true
}

// traceEntry tells of an entry, of which image is all but the last word.
func (c *cq) traceEntry(e *prm.Completion, image []byte, addr uint64) {
	r := trace.Record{Kind: trace.Completion, Queue: trace.CompletionQueue, Number: c.cqn, Index: c.produced, Address: addr,
		Bytes: binary.NativeEndian.AppendUint32(slices.Clone(image), prm.LastWord(*e))}
	if e.Opcode.IsError() {
		r.Reason = detail(e.VendorSyndrome).String()
	}
	c.nic.tell(c.origin, r)
}

// inlineRoom is how many bytes of a message fit a completion.
func (c *cq) inlineRoom() uint32 {
	if c.entrySize == 2*prm.CQESize {
		return prm.Inline64
	}
	return prm.Inline32
}

// setInline has a completion carry data, of no more than inlineRoom bytes.
func (c *cq) setInline(e *prm.Completion, data []byte) {
	e.Inline, e.Format = data, prm.CQEInline32
	if c.entrySize == 2*prm.CQESize {
		e.Format = prm.CQEInline64
	}
}

// hasRoom reads the consumer index only when the ring looks full.
func (c *cq) hasRoom() bool {
	if c.ignore || c.unconsumed() < c.entries {
		return true
	}
	return c.readConsumed() && c.unconsumed() < c.entries
}

// unconsumed is how many completions the driver had not consumed when its counter
// was last read.
func (c *cq) unconsumed() uint32 { return (c.produced - c.consumed) & prm.MaxNumber }

func (c *cq) readConsumed() bool {
	v, ok := c.nic.load(c.origin, c.mem, c.record+4*prm.RecordCI, trace.CompletionQueue, c.cqn)
	if ok {
		c.consumed = prm.BE32(v)
	}
	return ok
}

func (c *cq) overrun() {
	c.nic.count.Overruns++
	c.nic.warn("completion queue overrun", "cqn", c.cqn, "entries", c.entries,
		"produced", c.produced, "consumed", c.consumed)
	c.fail()
}

// forget drops the completions of a queue pair that faults hold back: a queue
// pair that is gone completes nothing more.
func (c *cq) forget(q *qp) {
	n := c.nic
	c.delayed = slices.DeleteFunc(c.delayed, func(d delayedCompletion) bool { return d.e.QPN == q.qpn })
	if len(c.delayed) == 0 {
		delete(n.late, c)
	}
	if held, ok := n.held[c]; ok {
		n.held[c] = slices.DeleteFunc(held, func(e prm.Completion) bool { return e.QPN == q.qpn })
	}
}

// fail ends the queue and, soon, every queue pair that completes to it.
func (c *cq) fail() {
	c.failed = true
	if c.async != nil {
		c.asyncEvents++
	}
	c.nic.raiseAsync(c.async, event{element: c.user, kind: uapi.EventCQErr, owner: c})
	for q := range c.qps {
		c.nic.doom(q)
	}
}

// arm takes the value of the arm doorbell record.
func (c *cq) arm(value uint32) {
	n := c.nic
	sn, solicited, ci, ok := prm.ParseArm(value)
	if !ok {
		n.badDoorbell("reserved bits in arm value", "cqn", c.cqn, "value", value)
		return
	}
	if c.unheard {
		c.unheard, c.sequence = false, uint32(sn)
	}
	if uint32(sn) != c.sequence&3 {
		n.count.StaleArms++
		return
	}
	n.count.Arms++
	c.armed, c.armSolicited, c.armedWith = true, solicited, value
	// A completion from ci on that no event has announced raises one at once:
	// it came between the last poll and the arm. One announced already does not:
	// programs that leave some in the queue wait for ever, as on a ConnectX-5
	// (linux-rdma/perftest, issue 137).
	last := c.produced
	if solicited {
		last = c.lastSolicited
	}
	consumed := c.produced - (c.produced-ci)&prm.MaxNumber
	if int32(last-consumed) > 0 && int32(last-c.announced) > 0 {
		c.raise()
	}
}

func (c *cq) loadArm() (v uint32, ok bool) {
	return c.nic.load(c.origin, c.mem, c.record+4*prm.RecordArm, trace.ArmWord, c.cqn)
}

// rearm reads the arm doorbell record of a queue whose doorbell may have been
// overwritten by another queue's, which share the register.
func (c *cq) rearm() {
	if c.channel == nil || c.unheard {
		return
	}
	v, ok := c.loadArm()
	if !ok {
		return
	}
	value := prm.BE32(v)
	if c.armed && value == c.armedWith {
		return
	}
	if sn, _, _, ok := prm.ParseArm(value); ok && uint32(sn) == c.sequence&3 {
		c.arm(value)
	}
}

// raise disarms the queue and announces its completions.
func (c *cq) raise() {
	c.armed = false
	c.sequence++
	c.announced = c.produced
	if c.channel == nil {
		return
	}
	c.events++
	c.nic.count.CompletionEvents++
	c.nic.raise(c.channel, event{element: c.user, owner: c})
}

func (n *NIC) countCompletion(e prm.Completion) {
	n.count.Completions++
	switch {
	case !e.Opcode.IsError():
	case e.Syndrome == prm.SyndromeFlushed:
		n.count.FlushCompletions++
	default:
		n.count.ErrorCompletions++
	}
}

// addCQ gives the queue its number.
func (n *NIC) addCQ(c *cq) {
	c.nic = n
	c.qps = map[*qp]bool{}
	for n.cqs[n.nextCQN] != nil {
		n.nextCQN = nextNumber(n.nextCQN)
	}
	c.cqn = n.nextCQN
	n.nextCQN = nextNumber(n.nextCQN)
	n.cqs[c.cqn] = c
	c.uar.cqs[c] = true
	c.uar.refs++
	n.count.CQs++
}

func (n *NIC) dropCQ(c *cq) {
	delete(n.cqs, c.cqn)
	delete(c.uar.cqs, c)
	c.uar.forgetCQ(c.cqn)
	c.uar.put()
	delete(n.late, c)
	delete(n.held, c)
	n.count.CQs--
}

// nextNumber walks the 24-bit numbers of queues, so that one freed is taken
// again as late as possible. The first few are the device's own.
func nextNumber(v uint32) uint32 {
	if v++; v > prm.MaxNumber-1 {
		return firstNumber
	}
	return v
}

const firstNumber = 0x40
