package softnic

import (
	"time"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/roce"
)

// The engine runs on whatever goroutine brings it work: one that rings a
// doorbell, delivers a packet, or issues a command; or the NIC's timer. Nobody
// waits for NIC.mu to bring work: who finds it taken leaves a note (pending),
// and whoever holds it looks for notes after giving it up. So rings of NICs
// that send to each other on one goroutine end, and a goroutine never holds one
// NIC while it waits for another.

// kick has the engine look for work, now and here unless it is running.
func (n *NIC) kick() { n.note(inlineWork) }

// note is kick by a goroutine that does no more than share of the work.
func (n *NIC) note(share int) {
	n.pending.Store(true)
	n.run(share)
}

// run works while there is work, or until it has done its share. Others may bring
// more for as long as it runs: without a share they could keep the goroutine for
// ever.
func (n *NIC) run(share int) {
	for n.pending.Load() && n.mu.TryLock() {
		share -= 1 + n.process(share)
		if other := n.giveUp(); other != nil {
			share /= 2
			other.run(share)
		}
		if share <= 0 {
			n.handOver()
			return
		}
	}
}

// lock takes the NIC for a command; unlock gives it up and does what came in
// between.
func (n *NIC) lock() { n.mu.Lock() }

func (n *NIC) unlock() {
	if other := n.giveUp(); other != nil { // a command does what was rung before it
		other.run(inlineWork)
	}
	n.run(inlineWork)
}

// giveUp unlocks the NIC, and returns the one that it disturbed, if it did.
func (n *NIC) giveUp() (other *NIC) {
	other, n.disturbed = n.disturbed, nil
	n.mu.Unlock()
	return other
}

// handOver lets the NIC's own goroutine go on, so that the one that brought the
// work gets away.
func (n *NIC) handOver() {
	n.pending.Store(true)
	select {
	case n.handed <- struct{}{}:
	default:
	}
}

// worker goes on with what others handed over. It ends with the NIC.
func (n *NIC) worker() {
	defer close(n.workerEnd)
	for {
		select {
		case <-n.closing:
			return
		case <-n.handed:
			n.run(inlineWork)
		}
	}
}

// The share of a goroutine that came by itself, and of one that delivers a packet,
// which may be at work for another NIC and hold that up. Doorbells, packets and
// turns of queue pairs count one each.
const (
	inlineWork   = 512
	deliveryWork = 64
)

// clockWork is how much is done by one look at the clock: some microseconds.
const clockWork = 32

// process works until nothing is left or limit is reached, and returns how much it
// did. Notes are taken off before each look, so that none is lost.
func (n *NIC) process(limit int) (did int) {
	now := time.Now()
	n.now = now
	for looked := 0; ; {
		if did-looked >= clockWork {
			now = time.Now()
			n.now, looked = now, did
		}
		if n.pending.Load() {
			n.pending.Store(false)
		}
		if n.fired.Load() {
			n.fired.Store(false)
			n.timerAt = time.Time{}
			now = time.Now() // no earlier than what the timer was set to
			n.now, looked = now, did
		}
		step := n.answerDoorbells()
		step += n.takeShared()
		step += n.takePackets(now)
		step += n.expire(now)
		step += n.serveReady(now)
		step += n.releaseLate(now)
		if did += step; step == 0 {
			n.pollFlushing(now)
		} else if did < limit {
			continue
		}
		n.setTimer(now)
		return did
	}
}

// effort counts what the engine did besides what it was asked for. It must not grow with
// the number of queue pairs.
type effort struct {
	turns     uint64 // of queue pairs
	corrected uint64 // entries of the timers' heap
	alarms    uint64 // settings of the timer, each of which wakes somebody up
}

// deliver is the receiver of the NIC's links.
func (n *NIC) deliver(p *link.Packet) {
	n.inboxMu.Lock()
	full := len(n.inbox) >= maxInbox
	if !full {
		n.inbox = append(n.inbox, p)
		if toItself(p) {
			n.toItself.Add(1)
		}
	}
	n.inboxMu.Unlock()
	if full {
		n.overflows.Add(1)
		p.Release()
	}
	if n.bursts.Load() == 0 { // else the burst's end will do it
		n.note(deliveryWork)
	}
}

// takeBurst has the engine look once for all packets of a burst.
func (n *NIC) takeBurst(burst func()) {
	n.bursts.Add(1)
	burst()
	n.bursts.Add(-1)
	n.note(deliveryWork)
}

// maxInbox bounds the packets that wait for the engine. While there are crowd to the
// NIC itself it sends none: they would be more than it takes in, or wait for longer
// than their senders do.
const (
	maxInbox = 1 << 14
	crowd    = 512
)

func toItself(p *link.Packet) bool { return p.Src == p.Dst }

// crowded reports whether packets are to be taken in before more are sent.
func (n *NIC) crowded() bool { return n.toItself.Load() >= crowd }

// takePackets takes in packets that have arrived, as many as one look at the clock
// is for.
func (n *NIC) takePackets(now time.Time) (did int) {
	if n.taken == len(n.arrived) {
		n.inboxMu.Lock()
		n.arrived, n.inbox = n.inbox, n.arrived[:0]
		n.inboxMu.Unlock()
		n.taken = 0
	}
	for ; n.taken < len(n.arrived) && did < clockWork; did++ {
		p := n.arrived[n.taken]
		n.arrived[n.taken] = nil
		n.taken++
		if toItself(p) {
			n.toItself.Add(-1)
		}
		n.takePacket(now, p)
		p.Release()
	}
	return did
}

func (n *NIC) takePacket(now time.Time, p *link.Packet) {
	if n.failed || !n.portUp {
		n.count.DropPortDown++
		return
	}
	n.count.PacketsReceived++
	n.count.BytesReceived += uint64(len(p.Buf))
	if len(p.Buf) < roce.BTHSize {
		n.count.DropMalformed++
		return
	}
	q := n.qps[roce.BTH(p.Headers()[:roce.BTHSize]).DestQP()]
	if q == nil || !q.connected() {
		n.count.DropUnknownQP++
		return
	}
	q.arrive(now, p)
}

// schedule puts a queue pair in line to be served.
func (n *NIC) schedule(q *qp) {
	if !q.scheduled {
		q.scheduled = true
		n.ready = append(n.ready, q)
	}
}

// serveReady gives each queue pair in line one turn, or as many as it takes to make a
// crowd of packets.
func (n *NIC) serveReady(now time.Time) (did int) {
	if n.served == len(n.serving) {
		n.serving, n.ready = n.ready, n.serving[:0]
		n.served = 0
	}
	for n.served < len(n.serving) && !n.crowded() {
		q := n.serving[n.served]
		n.serving[n.served] = nil
		n.served++
		q.scheduled = false
		if !q.failed && !n.failed {
			n.effort.turns++
			did += 1 + q.serve(now)
		}
	}
	if n.sent {
		n.sent = false
		for _, l := range n.links {
			l.Flush()
		}
	}
	return did
}

// pollFlushing flushes receives that were posted to queue pairs in error. Such
// a post rings no doorbell, so while there are queue pairs in error the timer
// looks after them, ever more seldom while it finds nothing.
func (n *NIC) pollFlushing(now time.Time) {
	switch {
	case len(n.flushing) == 0:
		n.flushWait, n.flushAt = 0, time.Time{}
		return
	case n.flushWait == 0: // there is a new one, whose receives are flushed
		n.flushWait = minFlushWait
	case now.Before(n.flushAt):
		return
	case n.flushPosted():
		n.flushWait = minFlushWait
	default:
		n.flushWait = min(2*n.flushWait, maxFlushWait)
	}
	n.flushAt = now.Add(n.flushWait)
}

func (n *NIC) flushPosted() (found bool) {
	for q := range n.flushing {
		if q.flushReceives() > 0 {
			found = true
		}
	}
	return found
}

const (
	minFlushWait = time.Millisecond
	maxFlushWait = 64 * time.Millisecond
)
