package link

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Impairments is how a link spoils the packets that pass it, in this order:
// loss, mark, corruption, duplication, reordering, rate, delay. The zero value spoils nothing.
// Loss and the other shares are probabilities, 0 to 1, per packet.
type Impairments struct {
	// Seed makes the choices repeatable: the same packets in the same order meet
	// the same fate, and which are lost does not depend on the other settings.
	Seed uint64

	Loss      float64
	Corrupt   float64 // flip a bit; the ICRC makes the other end drop the packet
	Duplicate float64 // a second copy follows at once
	Mark      float64 // mark as a congested switch does, if the sender heeds marks (ECN, RFC 3168)

	// Reorder is the share of packets held back until Gap later ones have passed
	// (0 means 3) or Hold has gone by (0 means 1 ms).
	Reorder float64
	Gap     int
	Hold    time.Duration

	// Rate is how many bits of RoCE packets, from the BTH to the ICRC, pass in a second:
	// 0, or 1000 and more. 0 means no limit. Packets wait for those before them; one that
	// finds 8 MiB waiting is lost.
	Rate float64

	// Delay is added to every packet; Jitter is the most that is added on top, at
	// random. Without jitter packets stay in order, also when Delay changes.
	Delay, Jitter time.Duration
}

// Defaults of Impairments.
const (
	defaultGap  = 3
	defaultHold = time.Millisecond
)

// queueRoom is how many bytes wait at most for a limited rate.
const queueRoom = 8 << 20

// minRate keeps the time of a full queue far from the most that a time.Duration holds.
const minRate = 1000

// Validate returns an error that names the first setting out of its range.
func (i Impairments) Validate() error {
	for _, share := range []struct {
		name  string
		value float64
	}{{"loss", i.Loss}, {"corrupt", i.Corrupt}, {"duplicate", i.Duplicate}, {"reorder", i.Reorder}, {"mark", i.Mark}} {
		if !(share.value >= 0 && share.value <= 1) {
			return fmt.Errorf("impairments: %s %v is not between 0 and 1", share.name, share.value)
		}
	}
	if i.Rate != 0 && !(i.Rate >= minRate && i.Rate <= math.MaxFloat64) {
		return fmt.Errorf("impairments: rate %v is neither 0 nor a number from %d", i.Rate, minRate)
	}
	if i.Gap < 0 || i.Hold < 0 || i.Delay < 0 || i.Jitter < 0 {
		return errors.New("impairments: negative gap, hold, delay or jitter")
	}
	return nil
}

// none reports whether i spoils nothing.
func (i Impairments) none() bool {
	return i.Loss == 0 && i.Corrupt == 0 && i.Duplicate == 0 && i.Reorder == 0 && i.Mark == 0 && i.Rate == 0 && i.Delay == 0 && i.Jitter == 0
}

// fate is what will happen to one packet.
type fate struct {
	lost, corrupt, duplicate, reorder bool
	mark                              bool
	where                             uint64        // of the bit to flip
	extra, extraCopy                  time.Duration // jitter
}

// choose always draws the same number of random values.
func (i Impairments) choose(rng *rand.Rand) (f fate) {
	f.lost = rng.Float64() < i.Loss
	f.corrupt = rng.Float64() < i.Corrupt
	f.duplicate = rng.Float64() < i.Duplicate
	f.reorder = rng.Float64() < i.Reorder
	f.where = rng.Uint64()
	f.mark = float64(f.where>>11)/(1<<53) < i.Mark // no value more, so that seeds mean what they did
	f.extra = time.Duration(rng.Float64() * float64(i.Jitter))
	f.extraCopy = time.Duration(rng.Float64() * float64(i.Jitter))
	return f
}

// Impaired is a link that spoils traffic.
type Impaired struct {
	Link
	out, in *pipe
	badICRC atomic.Uint64 // inbound packets
}

// Impair wraps the link that open makes. It spoils the packets that the link
// sends as imp says, and those it receives when SetInbound has said how.
func Impair(open func(Receiver) (Link, error), imp Impairments, r Receiver) (*Impaired, error) {
	if err := imp.Validate(); err != nil {
		return nil, err
	}
	l := new(Impaired)
	l.out = newPipe(imp.Seed, 0, func(p *Packet) { l.Link.Send(p) }, func() { l.Link.Flush() })
	l.in = newPipe(imp.Seed, 1, func(p *Packet) { l.deliver(p, r) }, func() {})
	l.out.set(imp)
	var err error
	if l.Link, err = open(l.in.push); err != nil {
		return nil, err
	}
	return l, nil
}

// Set changes what happens to packets sent from now on; Seed is not looked at.
// Packets held back for reordering go first, delayed ones keep their time.
func (l *Impaired) Set(imp Impairments) error { return l.out.change(imp) }

// SetInbound is Set for packets received from now on.
func (l *Impaired) SetInbound(imp Impairments) error { return l.in.change(imp) }

// Cut makes the link a black hole in both directions, or ends that. Packets that
// are held back or delayed were past the cut.
func (l *Impaired) Cut(cut bool) {
	l.out.setCut(cut)
	l.in.setCut(cut)
}

// Clear reports whether nothing happens to packets now, in either direction, and none is
// held back or delayed.
func (l *Impaired) Clear() bool { return l.out.idle.Load() && l.in.idle.Load() }

// Effects returns what was done to sent and to received packets.
func (l *Impaired) Effects() (out, in Effects) { return l.out.effects(), l.in.effects() }

// Counters returns those of the link inside, which has not sent what was lost on
// purpose and has received what is lost on purpose after it.
func (l *Impaired) Counters() Counters {
	c := l.Link.Counters()
	c.Dropped[DropICRC] += l.badICRC.Load()
	return c
}

// Send spoils and sends.
func (l *Impaired) Send(p *Packet) {
	if !p.stamp(l.Addr()) {
		l.Link.Send(p) // drops and counts it
		return
	}
	l.out.push(p)
}

// Close drops the packets that are held back or delayed, and closes the link
// inside.
func (l *Impaired) Close() error {
	l.out.close()
	err := l.Link.Close()
	l.in.close()
	return err
}

func (l *Impaired) deliver(p *Packet, r Receiver) {
	if !p.unseal() {
		l.badICRC.Add(1)
		p.Release()
		return
	}
	r(p)
}
