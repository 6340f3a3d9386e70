package dcqcn

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1000, 0)

const line = 100e9 / 8

func TestDecreaseAndRecovery(t *testing.T) {
	t.Parallel()
	r := NewRate(start, line)
	require.True(t, r.Recovered(start))
	r.Notified(start)
	require.Equal(t, line/2, r.BytesPerSecond(), "alpha is 1 at first")
	now := start
	for i := 1; i <= recoveries; i++ {
		now = now.Add(risePeriod)
		require.False(t, r.Recovered(now))
		require.InDelta(t, line*(1-1/float64(int(2)<<i)), r.BytesPerSecond(), 1, "half of the way each time")
	}
	require.True(t, r.Recovered(now.Add(time.Second)))
}

func TestAlphaFallsWithoutNotifications(t *testing.T) {
	t.Parallel()
	r := NewRate(start, line)
	r.Notified(start)
	now := start.Add(256 * alphaPeriod) // alpha is 1/e
	r.current, r.target, r.riseAt = line/4, line/4, now.Add(time.Hour)
	r.Notified(now)
	require.InDelta(t, 1-0.3679/2, r.BytesPerSecond()/(line/4), 0.01)
}

func TestLossHalves(t *testing.T) {
	t.Parallel()
	r := NewRate(start, line)
	for range 100 {
		r.Lost(start)
	}
	require.EqualValues(t, floor, r.BytesPerSecond())
}

func TestPace(t *testing.T) {
	t.Parallel()
	r := NewRate(start, 1e9)
	r.Notified(start) // 500 bytes per microsecond
	r.riseAt = start.Add(time.Hour)
	r.Sent(start, 5000)
	require.Equal(t, start.Add(10*time.Microsecond), r.Next())
	now := start.Add(time.Second)
	r.alphaAt = now.Add(time.Hour)
	r.riseAt = now.Add(time.Hour)
	r.Sent(now, 5000)
	require.Equal(t, now.Add(10*time.Microsecond-catchUp), r.Next(), "who is late may catch up a little")
}

func TestNotifier(t *testing.T) {
	t.Parallel()
	var n Notifier
	require.True(t, n.Marked(start))
	require.False(t, n.Marked(start.Add(notifyPeriod-1)))
	require.True(t, n.Marked(start.Add(notifyPeriod)))
}

// bottleneck is a queue that flows share, which marks as the paper's switches do
// (section 5: between 5 KB and 200 KB with up to 1 %, beyond it always), or not, and loses
// what it has no room for.
type bottleneck struct {
	rate  float64 // bytes per second
	room  float64 // bytes
	mark  bool
	rnd   *rand.Rand
	queue float64
	at    time.Time
	most  float64 // of the queue, since it was looked at
}

func (b *bottleneck) push(now time.Time, n int) (marked, lost bool) {
	b.queue = max(0, b.queue-now.Sub(b.at).Seconds()*b.rate)
	b.at = now
	if b.queue+float64(n) > b.room {
		return false, true
	}
	b.queue += float64(n)
	b.most = max(b.most, b.queue)
	const low, high, share = 5e3, 200e3, 0.01
	switch {
	case !b.mark || b.queue < low:
	case b.queue > high:
		marked = true
	default:
		marked = b.rnd.Float64() < share*(b.queue-low)/(high-low)
	}
	return marked, false
}

// outcome is what flows made of a bottleneck in the second half of the time.
type outcome struct {
	used  float64 // share of its rate
	jain  float64 // fairness index of the flows' bytes: 1 is equal shares
	queue float64 // the longest, in bytes
	lost  float64 // share of packets that were lost, or sent in vain after one that was
}

// share has n flows send all they may for d. News reaches them after a delay. What is
// sent between a lost packet and the news of it is of no use: the flow goes back.
func share(n int, b *bottleneck, d time.Duration) (o outcome) {
	const packet, delay, step = 4096, 20 * time.Microsecond, time.Microsecond
	type flow struct {
		rate        *Rate
		np          Notifier
		news        []time.Time
		lossAt      time.Time // heard then; zero for none
		bytes, lost float64
	}
	b.at = start
	flows := make([]*flow, n)
	for i := range flows {
		flows[i] = &flow{rate: NewRate(start, b.rate)} // nobody has a faster line
	}
	for now := start; now.Before(start.Add(d)); now = now.Add(step) {
		second := now.After(start.Add(d / 2))
		for k := range flows {
			f := flows[(k+int(now.UnixMicro()))%n] // nobody is always first
			if len(f.news) > 0 && !f.news[0].After(now) {
				f.rate.Notified(now)
				f.news = f.news[1:]
			}
			if !f.lossAt.IsZero() && !f.lossAt.After(now) {
				f.rate.Lost(now)
				f.lossAt = time.Time{}
			}
			f.rate.elapse(now)
			for !f.rate.Next().After(now) {
				f.rate.Sent(now, packet)
				marked, lost := b.push(now, packet)
				if marked && f.np.Marked(now) {
					f.news = append(f.news, now.Add(delay))
				}
				if lost && f.lossAt.IsZero() {
					f.lossAt = now.Add(delay)
				}
				switch {
				case !second:
				case !f.lossAt.IsZero():
					f.lost += packet
				default:
					f.bytes += packet
				}
			}
		}
		if !second {
			b.most = 0
		}
	}
	sum, squares, lost := 0.0, 0.0, 0.0
	for _, f := range flows {
		sum += f.bytes
		squares += f.bytes * f.bytes
		lost += f.lost
	}
	return outcome{used: sum / (b.rate * (d / 2).Seconds()), jain: sum * sum / (float64(n) * squares), queue: b.most, lost: lost / (sum + lost)}
}

// Flows that share a bottleneck keep its queue short, use most of it, and get like
// shares.
func TestSharedBottleneck(t *testing.T) {
	for _, n := range []int{2, 4, 16} {
		t.Run(fmt.Sprintf("%d flows", n), func(t *testing.T) {
			t.Parallel()
			b := &bottleneck{rate: 10e9 / 8, room: 2e6, mark: true, rnd: rand.New(rand.NewPCG(uint64(n), 1))}
			o := share(n, b, 200*time.Millisecond)
			t.Logf("%+v", o)
			require.Greater(t, o.used, 0.8)
			require.Greater(t, o.jain, 0.9)
			require.Less(t, o.queue, 500e3)
			require.Zero(t, o.lost)
		})
	}
}

// Where nothing marks, losses keep the flows in bounds.
func TestSharedBottleneckThatLoses(t *testing.T) {
	for _, n := range []int{2, 4, 16} {
		t.Run(fmt.Sprintf("%d flows", n), func(t *testing.T) {
			t.Parallel()
			b := &bottleneck{rate: 10e9 / 8, room: 500e3, rnd: rand.New(rand.NewPCG(uint64(n), 2))}
			o := share(n, b, 200*time.Millisecond)
			t.Logf("%+v", o)
			require.Greater(t, o.used, 0.8)
			require.Greater(t, o.jain, 0.9)
			require.Less(t, o.lost, 0.1)
		})
	}
}
