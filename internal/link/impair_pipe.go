package link

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Effects counts what impairments did to packets.
type Effects struct {
	Lost, Cut, Corrupted, Duplicated, Reordered, Delayed, Marked uint64
	Overflowed                                                   uint64 // lost for want of room in the queue that Rate makes
	Discarded                                                    uint64 // under way at Close
}

// pipe spoils the packets that go one way.
//
//	push: cut? lost? corrupted, copied -> held back?  -> delayed? -> forward
//	                                      held (gap)     late (time)
//
// One timer, made when first needed, serves both places. Packets are forwarded
// without the lock, because a receiver may send at once.
type pipe struct {
	forward func(*Packet)
	flush   func()      // after what was forwarded without anybody's doing
	idle    atomic.Bool // nothing to do to packets, and none waiting
	gate    gate        // the timer's calls

	mu       sync.Mutex // guards what follows
	imp      Impairments
	cut      bool
	closed   bool
	rng      *rand.Rand
	passed   uint64    // packets that went by the held ones
	held     []waiting // by arrival
	late     []waiting // by due
	leftAt   time.Time // when the last bit of the packets so far has left, by Rate
	draining bool      // a timer's call is forwarding packets of late
	timer    *time.Timer
	armed    time.Time // when the timer goes off; zero if it does not
	effect   Effects
}

// waiting is a packet that waits.
type waiting struct {
	packet *Packet
	due    time.Time
	after  uint64 // held: goes when passed gets here
	extra  time.Duration
}

func newPipe(seed, way uint64, forward func(*Packet), flush func()) *pipe {
	q := &pipe{forward: forward, flush: flush, gate: newGate(), rng: rand.New(rand.NewPCG(seed, way))}
	q.idle.Store(true)
	return q
}

// push takes a stamped packet.
func (q *pipe) push(p *Packet) {
	if q.idle.Load() {
		q.forward(p)
		return
	}
	var space [8]*Packet
	for _, p := range q.spoil(p, space[:0]) {
		q.forward(p)
	}
}

// spoil appends to out what is to be forwarded now.
func (q *pipe) spoil(p *Packet, out []*Packet) []*Packet {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return append(out, p) // the link behind knows what to do
	}
	f := q.imp.choose(q.rng)
	switch {
	case q.cut:
		q.effect.Cut++
		p.Release()
		return out
	case f.lost:
		q.effect.Lost++
		p.Release()
		return out
	case f.corrupt:
		q.effect.Corrupted++
		damage(p, f.where)
	}
	if f.mark && p.TClass&ecn != 0 && p.TClass&ecn != ecn {
		q.effect.Marked++
		p.TClass |= ecn
	}
	var second *Packet
	if f.duplicate {
		q.effect.Duplicated++
		second = p.clone()
	}
	if f.reorder {
		q.hold(p, f.extra)
	} else {
		out = q.pass(p, f.extra, out)
	}
	if second != nil {
		out = q.pass(second, f.extraCopy, out)
	}
	q.update()
	return out
}

// ecn is the part of a traffic class by which a sender says, with bits of it, that it
// heeds marks, and which is all ones in a marked packet.
const ecn = 3

// damage flips one bit of those that the ICRC covers: all but the fifth byte.
func damage(p *Packet, where uint64) {
	p.seal()
	const uncovered = 4
	at := where % uint64(p.size()-1)
	if at >= uncovered {
		at++
	}
	p.Buf[at] ^= 1 << (where >> 61)
}

func (q *pipe) hold(p *Packet, extra time.Duration) {
	gap, wait := q.imp.Gap, q.imp.Hold
	if gap == 0 {
		gap = defaultGap
	}
	if wait == 0 {
		wait = defaultHold
	}
	q.effect.Reordered++
	q.held = append(q.held, waiting{p, time.Now().Add(wait), q.passed + uint64(gap), extra})
}

// pass lets a packet go by those held back, which may set some free.
func (q *pipe) pass(p *Packet, extra time.Duration, out []*Packet) []*Packet {
	out = q.delay(p, extra, out)
	q.passed++
	return q.free(func(w waiting) bool { return w.after <= q.passed }, out)
}

// free lets go of the first of the held packets, as long as they may. Those that
// came later may not earlier: gap and time are the same for all.
func (q *pipe) free(may func(waiting) bool, out []*Packet) []*Packet {
	n := 0
	for n < len(q.held) && may(q.held[n]) {
		out = q.delay(q.held[n].packet, q.held[n].extra, out)
		n++
	}
	q.held = slices.Delete(q.held, 0, n)
	return out
}

// delay puts a packet in its place in late, or appends it to out.
func (q *pipe) delay(p *Packet, extra time.Duration, out []*Packet) []*Packet {
	wait := q.imp.Delay + extra
	if q.imp.Rate > 0 {
		queued, ok := q.queue(p)
		if !ok {
			q.effect.Overflowed++
			p.Release()
			return out
		}
		wait += queued
	}
	if wait > 0 {
		q.effect.Delayed++
	} else if len(q.late) == 0 && !q.draining {
		return append(out, p)
	}
	due := time.Now().Add(wait)
	at := len(q.late)
	if q.imp.Jitter == 0 && at > 0 && q.late[at-1].due.After(due) {
		due = q.late[at-1].due
	}
	for at > 0 && q.late[at-1].due.After(due) {
		at--
	}
	q.late = slices.Insert(q.late, at, waiting{packet: p, due: due})
	return out
}

// queue is how long it takes until a packet has left behind those before it; ok is false
// if there is no room for it.
func (q *pipe) queue(p *Packet) (wait time.Duration, ok bool) {
	now, bits := time.Now(), float64(8*p.size())
	if q.leftAt.Before(now) {
		q.leftAt = now
	}
	if q.leftAt.Sub(now).Seconds()*q.imp.Rate > 8*queueRoom {
		return 0, false
	}
	q.leftAt = q.leftAt.Add(time.Duration(bits / q.imp.Rate * float64(time.Second)))
	return q.leftAt.Sub(now), true
}

// update sets the timer for the first packet that waits for it.
func (q *pipe) update() {
	waits := len(q.held) > 0 || len(q.late) > 0 || q.draining
	q.idle.Store(q.imp.none() && !q.cut && !waits)
	var due time.Time
	if len(q.late) > 0 {
		due = q.late[0].due
	}
	if len(q.held) > 0 && (due.IsZero() || q.held[0].due.Before(due)) {
		due = q.held[0].due
	}
	if due.IsZero() || q.draining || !q.armed.IsZero() && !due.Before(q.armed) {
		return
	}
	q.armed = due
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(due), q.expire)
	} else {
		q.timer.Reset(time.Until(due))
	}
}

// expire runs when the timer goes off.
func (q *pipe) expire() {
	if !q.gate.enter() {
		return
	}
	defer q.gate.leave()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = time.Time{}
	if q.draining {
		return // the call that drains sets the timer again
	}
	q.draining = true
	for {
		out := q.due()
		if len(out) == 0 {
			break
		}
		q.mu.Unlock()
		for _, p := range out {
			q.forward(p)
		}
		q.flush()
		q.mu.Lock()
	}
	q.draining = false
	q.update()
}

// due takes out the packets whose time has come.
func (q *pipe) due() (out []*Packet) {
	now := time.Now()
	out = q.free(func(w waiting) bool { return !w.due.After(now) }, out)
	now = time.Now() // not before those just set free
	n := 0
	for n < len(q.late) && !q.late[n].due.After(now) {
		out = append(out, q.late[n].packet)
		n++
	}
	q.late = slices.Delete(q.late, 0, n)
	return out
}

func (q *pipe) change(imp Impairments) error {
	if err := imp.Validate(); err != nil {
		return err
	}
	for _, p := range q.set(imp) {
		q.forward(p)
	}
	q.flush()
	return nil
}

// set returns the packets that were held back.
func (q *pipe) set(imp Impairments) (out []*Packet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out = q.free(func(waiting) bool { return true }, nil)
	q.imp = imp
	q.update()
	return out
}

func (q *pipe) setCut(cut bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cut = cut
	q.update()
}

func (q *pipe) effects() Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.effect
}

// close discards what waits; when it returns the timer's call does not run and
// will not.
func (q *pipe) close() {
	q.gate.shut()
	q.discard()
	q.gate.wait()
}

func (q *pipe) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, w := range slices.Concat(q.held, q.late) {
		q.effect.Discarded++
		w.packet.Release()
	}
	q.held, q.late = nil, nil
	q.idle.Store(true)
}
