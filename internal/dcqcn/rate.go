package dcqcn

import (
	"math"
	"time"
)

// Parameters, as in section 5 of the paper where it has them.
const (
	gain         = 1.0 / 256             // g: how fast alpha follows
	alphaPeriod  = 55 * time.Microsecond // alpha falls once in such a time without a notification
	risePeriod   = 55 * time.Microsecond // the rate rises once in such a time, and
	riseBytes    = 10_000_000            // once in so many bytes sent
	recoveries   = 5                     // F: rises up to the rate before, before it goes beyond
	addRate      = 40e6 / 8              // by so many bytes per second each time, and
	addFast      = 400e6 / 8             // by so many when both counts have passed
	floor        = 10e6 / 8              // no flow is slower
	lostDecrease = 2
)

// catchUp is how much a sender that comes late may send at once, in time: timers are
// late, and the rate is to be kept all the same.
const catchUp = 100 * time.Microsecond

// Rate is the sending rate of one flow that was told of congestion. A flow that never
// was, or has Recovered, needs none.
type Rate struct {
	line    float64 // bytes per second: the most
	current float64
	target  float64 // to which current rises
	alpha   float64 // estimate of congestion, 0 to 1

	alphaAt time.Time // when alpha falls next
	riseAt  time.Time // when the rate rises next
	sent    int       // bytes since the last rise by bytes
	byTime  int       // rises since the last decrease
	byBytes int
	next    time.Time // when the next packet may go
}

// NewRate returns the rate of a flow that was told nothing so far: line, in bytes per
// second.
func NewRate(now time.Time, line float64) *Rate {
	return &Rate{line: line, current: line, target: line, alpha: 1,
		alphaAt: now.Add(alphaPeriod), riseAt: now.Add(risePeriod), next: now}
}

// Notified lowers the rate: a congestion notification has come.
func (r *Rate) Notified(now time.Time) {
	r.elapse(now)
	r.decrease(now, 1-r.alpha/2)
	r.alpha += (1 - r.alpha) * gain
	r.alphaAt = now.Add(alphaPeriod)
}

// Lost lowers the rate: packets were lost. There is no way back to the rate before but
// step by step, since what the queue had no room for it will not have next time.
func (r *Rate) Lost(now time.Time) {
	r.elapse(now)
	r.decrease(now, 1.0/lostDecrease)
	r.target = r.current
}

func (r *Rate) decrease(now time.Time, by float64) {
	r.target = r.current
	r.current = max(floor, r.current*by)
	r.byTime, r.byBytes, r.sent = 0, 0, 0
	r.riseAt = now.Add(risePeriod)
}

// Sent accounts for a packet of n bytes.
func (r *Rate) Sent(now time.Time, n int) {
	r.elapse(now)
	if late := now.Add(-catchUp); r.next.Before(late) {
		r.next = late
	}
	r.next = r.next.Add(time.Duration(float64(n) / r.current * float64(time.Second)))
	if r.sent += n; r.sent >= riseBytes {
		r.sent -= riseBytes
		r.byBytes++
		r.rise()
	}
}

// Next is when the next packet may go; it is not after now if that is at once.
func (r *Rate) Next() time.Time { return r.next }

// Recovered says that the flow is as fast as can be again.
func (r *Rate) Recovered(now time.Time) bool {
	r.elapse(now)
	return r.current >= r.line
}

// BytesPerSecond is the rate.
func (r *Rate) BytesPerSecond() float64 { return r.current }

// elapse does what was due up to now.
func (r *Rate) elapse(now time.Time) {
	if !r.alphaAt.After(now) {
		n := now.Sub(r.alphaAt)/alphaPeriod + 1
		r.alpha *= math.Pow(1-gain, float64(n))
		r.alphaAt = r.alphaAt.Add(n * alphaPeriod)
	}
	for !r.riseAt.After(now) && r.current < r.line {
		r.byTime++
		r.rise()
		r.riseAt = r.riseAt.Add(risePeriod)
	}
}

// rise is one step up: half of the way to the target, which itself moves after some.
func (r *Rate) rise() {
	switch fewer, more := min(r.byTime, r.byBytes), max(r.byTime, r.byBytes); {
	case fewer > recoveries:
		r.target += float64(fewer-recoveries) * addFast
	case more > recoveries:
		r.target += addRate
	}
	r.target = min(r.target, r.line)
	r.current = (r.current + r.target) / 2
	if r.current > r.line*0.99 {
		r.current = r.line
	}
}
