package link

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// spoiled is an impaired link at alice's address, bob's link, and their inboxes.
func spoiled(t *testing.T, imp Impairments) (a *Impaired, b Link, atA, atB *inbox) {
	s := NewSwitch()
	atA, atB = newInbox(t), newInbox(t)
	b, err := s.Join(bob, atB.receive)
	require.NoError(t, err)
	a, err = Impair(func(r Receiver) (Link, error) { return s.Join(alice, r) }, imp, atA.receive)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	return a, b, atA, atB
}

func sendAll(l Link, to Link, from, until uint32) {
	for i := from; i < until; i++ {
		l.Send(numbered(to.Addr(), i, 4))
	}
	l.Flush()
}

// sent returns the fate of n packets, all settled.
func sent(t *testing.T, imp Impairments, n uint32) (arrived []uint32, effects Effects) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, imp)
		sendAll(a, b, 0, n)
		time.Sleep(time.Hour)
		arrived = atB.got()
		effects, _ = a.Effects()
	})
	return arrived, effects
}

func TestImpairNothing(t *testing.T) {
	a, b, atA, atB := spoiled(t, Impairments{Seed: 1, Gap: 5, Hold: time.Second})
	sendAll(a, b, 0, 1000)
	sendAll(b, a, 0, 1000)
	require.Equal(t, numbers(0, 1000), atB.got())
	require.Equal(t, numbers(0, 1000), atA.got())
	out, in := a.Effects()
	require.Zero(t, out)
	require.Zero(t, in)
	require.Equal(t, alice, a.Addr())
	require.Equal(t, uint64(1000), a.Counters().Sent)
	require.Equal(t, uint64(1000), a.Counters().Received)

	a.Send(a.Get(3))
	require.Equal(t, uint64(1), a.Counters().Dropped[DropSize])
}

// Each share comes out as it was set, within four standard deviations.
func TestImpairShares(t *testing.T) {
	const n = 5000
	for _, share := range []float64{0.01, 0.1, 0.5, 1} {
		near := func(got uint64) {
			t.Helper()
			require.InDelta(t, n*share, float64(got), 4*math.Sqrt(n*share*(1-share)))
		}
		arrived, e := sent(t, Impairments{Seed: 42, Loss: share}, n)
		near(e.Lost)
		require.Len(t, arrived, n-int(e.Lost))
		require.True(t, slices.IsSorted(arrived))
		require.Equal(t, Effects{Lost: e.Lost}, e)

		arrived, e = sent(t, Impairments{Seed: 42, Corrupt: share}, n)
		near(e.Corrupted)
		require.Len(t, arrived, n-int(e.Corrupted))
		require.True(t, slices.IsSorted(arrived))
		require.Equal(t, Effects{Corrupted: e.Corrupted}, e)

		arrived, e = sent(t, Impairments{Seed: 42, Duplicate: share}, n)
		near(e.Duplicated)
		require.Len(t, arrived, n+int(e.Duplicated))
		require.True(t, slices.IsSorted(arrived))
		require.Equal(t, numbers(0, n), slices.Compact(arrived))
		require.Equal(t, Effects{Duplicated: e.Duplicated}, e)

		arrived, e = sent(t, Impairments{Seed: 42, Reorder: share}, n)
		near(e.Reordered)
		require.Len(t, arrived, n)
		if share < 1 {
			require.False(t, slices.IsSorted(arrived))
		}
		slices.Sort(arrived)
		require.Equal(t, numbers(0, n), arrived)
		require.Equal(t, Effects{Reordered: e.Reordered}, e)
	}
}

func TestImpairIsRepeatable(t *testing.T) {
	imp := Impairments{
		Seed: 7, Loss: 0.1, Corrupt: 0.05, Duplicate: 0.1, Reorder: 0.2,
		Delay: time.Millisecond, Jitter: time.Millisecond,
	}
	first, e1 := sent(t, imp, 500)
	again, e2 := sent(t, imp, 500)
	require.Equal(t, first, again)
	require.Equal(t, e1, e2)
	imp.Seed = 8
	other, _ := sent(t, imp, 500)
	require.NotEqual(t, first, other)

	// Which are lost depends on seed and loss only.
	mixed, _ := sent(t, Impairments{Seed: 7, Loss: 0.1, Duplicate: 0.5, Reorder: 0.5, Jitter: time.Second}, 500)
	plain, _ := sent(t, Impairments{Seed: 7, Loss: 0.1}, 500)
	slices.Sort(mixed)
	require.Equal(t, plain, slices.Compact(mixed))
}

// A packet held back comes out behind the Gap packets after it.
func TestReorderByGap(t *testing.T) {
	a, b, _, atB := spoiled(t, Impairments{Reorder: 1, Gap: 2, Hold: time.Hour})
	sendAll(a, b, 0, 1)
	require.Empty(t, atB.got())
	a.out.mu.Lock()
	a.out.imp.Reorder = 0
	a.out.mu.Unlock()
	sendAll(a, b, 1, 5)
	require.Equal(t, []uint32{1, 2, 0, 3, 4}, atB.got())
	require.True(t, a.out.idle.Load(), "with nothing left to do")

	require.NoError(t, a.Set(Impairments{Reorder: 1, Hold: time.Hour}))
	sendAll(a, b, 5, 6)
	a.out.mu.Lock()
	a.out.imp.Reorder = 0
	a.out.mu.Unlock()
	sendAll(a, b, 6, 10)
	require.Equal(t, []uint32{6, 7, 8, 5, 9}, atB.got()[5:], "3 by default")
}

// Or, with nothing behind it, after Hold.
func TestReorderByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Reorder: 1, Hold: 5 * time.Millisecond})
		sendAll(a, b, 0, 1)
		time.Sleep(4 * time.Millisecond)
		sendAll(a, b, 1, 2)
		require.Empty(t, atB.got())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []uint32{0}, atB.got())
		time.Sleep(4 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []uint32{0, 1}, atB.got())

		require.NoError(t, a.Set(Impairments{Reorder: 1}))
		sendAll(a, b, 2, 3)
		time.Sleep(defaultHold - 1)
		require.Len(t, atB.got(), 2)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, atB.got(), 3)
	})
}

// The timer serves a held packet though a delayed one waits longer.
func TestReorderBesideDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Delay: time.Hour})
		sendAll(a, b, 0, 1)
		require.NoError(t, a.Set(Impairments{Reorder: 1, Hold: time.Second, Jitter: 1}))
		sendAll(a, b, 1, 2)
		time.Sleep(time.Second + time.Millisecond)
		require.Equal(t, []uint32{1}, atB.got())
		time.Sleep(time.Hour)
		require.Equal(t, []uint32{1, 0}, atB.got())
	})
}

// New settings free what the old ones hold.
func TestSetFreesHeldPackets(t *testing.T) {
	a, b, _, atB := spoiled(t, Impairments{Reorder: 1, Hold: time.Hour})
	sendAll(a, b, 0, 3)
	require.Empty(t, atB.got())
	require.NoError(t, a.Set(Impairments{}))
	require.Equal(t, []uint32{0, 1, 2}, atB.got())
	sendAll(a, b, 3, 4)
	require.Equal(t, numbers(0, 4), atB.got())
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Delay: 10 * time.Millisecond})
		start := time.Now()
		for i := range uint32(100) {
			sendAll(a, b, i, i+1)
			time.Sleep(time.Millisecond)
		}
		// Those sent 10 ms ago and before have come.
		synctest.Wait()
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.Equal(t, numbers(0, 91), atB.got())
		time.Sleep(9 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, numbers(0, 100), atB.got())
		out, _ := a.Effects()
		require.Equal(t, Effects{Delayed: 100}, out)
	})
}

// Packets leave one after the other at the rate, in order, and a pause costs no one behind it.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const packets = 100
		a, b, _, atB := spoiled(t, Impairments{Rate: 1e6, Delay: time.Millisecond})
		each := time.Duration(8*numbered(b.Addr(), 0, 4).size()) * time.Microsecond
		for sent := uint32(0); sent < 2*packets; sent += packets {
			sendAll(a, b, sent, sent+packets)
			time.Sleep(time.Millisecond + each - 1)
			synctest.Wait()
			require.Len(t, atB.got(), int(sent))
			time.Sleep(1 + 9*each)
			synctest.Wait()
			require.Equal(t, numbers(0, sent+10), atB.got())
			time.Sleep((packets - 10) * each)
			synctest.Wait()
			require.Equal(t, numbers(0, sent+packets), atB.got())
			require.False(t, a.Clear(), "a rate is an impairment")
			time.Sleep(time.Second)
		}
	})
}

// What waits for a slow link is bounded, in bytes.
func TestRateOverflows(t *testing.T) {
	const packets = 10_000
	arrived, e := sent(t, Impairments{Rate: 1e9}, packets)
	require.Zero(t, e.Overflowed)
	require.Len(t, arrived, packets)
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Rate: 1e9})
		size := numbered(b.Addr(), 0, 4096).size()
		for i := range uint32(packets) {
			a.Send(numbered(b.Addr(), i, 4096))
		}
		e, _ := a.Effects()
		require.InDelta(t, queueRoom/size, packets-e.Overflowed, 2)
		time.Sleep(time.Minute)
		require.Len(t, atB.got(), packets-int(e.Overflowed))
	})
}

// A shorter delay does not let later packets overtake, nor does none.
func TestDelayChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Delay: 10 * time.Millisecond})
		sendAll(a, b, 0, 5)
		require.NoError(t, a.Set(Impairments{Delay: time.Millisecond}))
		sendAll(a, b, 5, 10)
		require.NoError(t, a.Set(Impairments{}))
		sendAll(a, b, 10, 15)
		time.Sleep(9 * time.Millisecond)
		require.Empty(t, atB.got())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, numbers(0, 15), atB.got())
		require.True(t, a.out.idle.Load())
		sendAll(a, b, 15, 16)
		require.Equal(t, numbers(0, 16), atB.got(), "at once again")
	})
}

func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, atB := spoiled(t, Impairments{Seed: 3, Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond})
		const n = 1000
		sendAll(a, b, 0, n)
		var came []int
		for range 21 {
			synctest.Wait()
			came = append(came, len(atB.got()))
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 0, came[9])
		require.InDelta(t, n/2, came[15], 70)
		require.Equal(t, n, came[20])
		require.False(t, slices.IsSorted(atB.got()), "jitter reorders")
	})
}

func TestCut(t *testing.T) {
	a, b, atA, atB := spoiled(t, Impairments{})
	sendAll(a, b, 0, 1)
	a.Cut(true)
	sendAll(a, b, 1, 5)
	sendAll(b, a, 1, 4)
	a.Cut(false)
	sendAll(a, b, 5, 6)
	sendAll(b, a, 5, 6)
	require.Equal(t, []uint32{0, 5}, atB.got())
	require.Equal(t, []uint32{5}, atA.got())
	out, in := a.Effects()
	require.Equal(t, Effects{Cut: 4}, out)
	require.Equal(t, Effects{Cut: 3}, in)
}

func TestInbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, atA, atB := spoiled(t, Impairments{})
		require.NoError(t, a.SetInbound(Impairments{Corrupt: 1}))
		sendAll(b, a, 0, 10)
		require.Empty(t, atA.got())
		require.Equal(t, uint64(10), a.Counters().Dropped[DropICRC])
		require.NoError(t, a.SetInbound(Impairments{Delay: time.Second}))
		sendAll(b, a, 10, 20)
		sendAll(a, b, 0, 10)
		require.Equal(t, numbers(0, 10), atB.got())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, numbers(10, 20), atA.got())
		out, in := a.Effects()
		require.Zero(t, out)
		require.Equal(t, Effects{Corrupted: 10, Delayed: 10}, in)
	})
}

// A flipped bit is found wherever it is, and copies of a damaged packet too.
func TestCorruptPackets(t *testing.T) {
	a, b, _, atB := spoiled(t, Impairments{Seed: 5, Corrupt: 1, Duplicate: 1})
	for i := range uint32(5000) {
		a.Send(numbered(bob, i, int(i)%9))
	}
	a.Send(a.Get(3))
	require.Equal(t, uint64(1), a.Counters().Dropped[DropSize])
	require.Empty(t, atB.got())
	require.Equal(t, uint64(10000), b.Counters().Dropped[DropICRC])
}

func TestDamage(t *testing.T) {
	seen := map[int]bool{}
	for where := range uint64(1 << 12) {
		p := numbered(bob, 1, 5)
		p.stamp(alice)
		before := slices.Clone(p.Buf)
		damage(p, where*0x9e3779b97f4a7c15)
		flipped := -1
		for i := range len(before) * 8 {
			if (p.Buf[i/8]^before[i/8])>>(i%8)&1 != 0 {
				require.Equal(t, -1, flipped, "two bits")
				flipped = i
			}
		}
		require.NotEqual(t, -1, flipped, "no bit, or one of the ICRC")
		seen[flipped] = true
		p.Release()
	}
	require.Len(t, seen, (20-1)*8, "every bit but those of byte 4")
	require.False(t, seen[4*8])
}

// Over UDP a damaged packet is dropped at the other end.
func TestCorruptOverUDP(t *testing.T) {
	far, in := loopback(t)
	a, err := Impair(LoopbackUDP, Impairments{}, (*Packet).Release)
	if errors.Is(err, ErrAddrInUse) {
		t.Skip("UDP port 4791 is taken: ", err)
	}
	require.NoError(t, err)
	defer a.Close()
	sendAll(a, far, 0, steadyAfter)
	in.wait(steadyAfter)
	require.NoError(t, a.Set(Impairments{Corrupt: 1}))
	sendAll(a, far, 100, 150)
	require.NoError(t, a.Set(Impairments{}))
	sendAll(a, far, steadyAfter, steadyAfter+1)
	require.Equal(t, numbers(0, steadyAfter+1), in.wait(steadyAfter+1))
	require.Equal(t, uint64(50), far.Counters().Dropped[DropICRC])
}

func TestImpairClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, atA, atB := spoiled(t, Impairments{Seed: 1, Delay: time.Hour, Duplicate: 1})
		require.NoError(t, a.SetInbound(Impairments{Reorder: 1, Hold: time.Hour}))
		sendAll(a, b, 0, 10)
		sendAll(b, a, 0, 10)
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.False(t, a.out.timer.Stop(), "stopped already")
		require.False(t, a.in.timer.Stop(), "stopped already")
		out, in := a.Effects()
		require.Equal(t, Effects{Duplicated: 10, Delayed: 20, Discarded: 20}, out)
		require.Equal(t, Effects{Reordered: 10, Discarded: 10}, in)

		a.out.expire() // as when the timer went off just before
		a.Cut(true)    // makes the pipes work again, were they not closed
		require.NoError(t, a.Set(Impairments{Delay: 1}))
		sendAll(a, b, 10, 12)
		require.Equal(t, uint64(2), a.Counters().Dropped[DropClosed])
		time.Sleep(2 * time.Hour)
		require.Empty(t, atA.got())
		require.Empty(t, atB.got())
	})
}

// Close waits for a delivery that the timer began.
func TestImpairCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSwitch()
		leave := make(chan struct{})
		calls := 0
		a, err := Impair(func(r Receiver) (Link, error) { return s.Join(alice, r) }, Impairments{}, func(p *Packet) {
			p.Release()
			calls++
			<-leave
		})
		require.NoError(t, err)
		require.NoError(t, a.SetInbound(Impairments{Delay: time.Second}))
		sendAll(a, a, 0, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		sendAll(a, a, 1, 2)
		time.Sleep(time.Second) // a second call of the timer while the first is out
		synctest.Wait()
		a.in.expire() // as when the timer was set again just as it went off
		closed := false
		go func() { a.Close(); closed = true }()
		synctest.Wait()
		require.False(t, closed)
		close(leave)
		synctest.Wait()
		require.True(t, closed)
		require.Equal(t, 1, calls)
		_, in := a.Effects()
		require.Equal(t, uint64(1), in.Discarded)
	})
}

// While the timer's call forwards, what comes meanwhile waits behind it.
func TestImpairKeepsOrderWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSwitch()
		in := newInbox(t)
		first, leave := true, make(chan struct{})
		b, err := s.Join(bob, func(p *Packet) {
			if first {
				first = false
				<-leave
			}
			in.receive(p)
		})
		require.NoError(t, err)
		a, err := Impair(func(r Receiver) (Link, error) { return s.Join(alice, r) }, Impairments{Delay: time.Second}, nil)
		require.NoError(t, err)
		sendAll(a, b, 0, 5)
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, a.Set(Impairments{}))
		sendAll(a, b, 5, 10)
		require.Empty(t, in.got())
		close(leave)
		time.Sleep(time.Second)
		require.Equal(t, numbers(0, 10), in.got())
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

func TestImpairErrors(t *testing.T) {
	opened := false
	open := func(Receiver) (Link, error) { opened = true; return nil, errors.New("no link") }
	for _, bad := range []Impairments{
		{Loss: -0.1}, {Loss: 1.1}, {Loss: math.NaN()}, {Corrupt: 2}, {Duplicate: 2}, {Reorder: -1},
		{Gap: -1}, {Hold: -1}, {Delay: -1}, {Jitter: -1},
		{Rate: -1}, {Rate: 999}, {Rate: math.NaN()}, {Rate: math.Inf(1)},
	} {
		_, err := Impair(open, bad, nil)
		require.ErrorContains(t, err, "impairments: ")
		require.False(t, opened)
		a, _, _, _ := spoiled(t, Impairments{})
		require.Error(t, a.Set(bad))
		require.Error(t, a.SetInbound(bad))
	}
	_, err := Impair(open, Impairments{}, nil)
	require.EqualError(t, err, "no link")
}

// Senders, timers, changes and the end at once: every packet is accounted for.
func TestImpairConcurrently(t *testing.T) {
	a, b, _, atB := spoiled(t, Impairments{
		Seed: 1, Loss: 0.1, Corrupt: 0.1, Duplicate: 0.1, Reorder: 0.1,
		Delay: 10 * time.Microsecond, Jitter: 50 * time.Microsecond,
	})
	const senders, packets = 4, 2000
	var all sync.WaitGroup
	for range senders {
		all.Go(func() { sendAll(a, b, 0, packets) })
	}
	all.Go(func() {
		for i := range 200 {
			a.Cut(i%2 == 0)
			a.Effects()
		}
	})
	all.Wait()
	require.NoError(t, a.Close())
	e, _ := a.Effects()
	bad := b.Counters().Dropped[DropICRC]
	require.Equal(t, uint64(senders*packets)+e.Duplicated, uint64(len(atB.got()))+bad+e.Lost+e.Cut+e.Discarded)
}

func TestImpairDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for name, imp := range map[string]Impairments{
		"nothing":      {},
		"lossy":        {Seed: 1, Loss: 0.1, Corrupt: 0.1, Duplicate: 0.1},
		"reordering":   {Seed: 1, Reorder: 0.2, Hold: time.Hour},
		"out of order": {Seed: 1, Reorder: 1, Gap: 1, Duplicate: 1, Hold: time.Hour},
	} {
		s := NewSwitch()
		a, err := Impair(func(r Receiver) (Link, error) { return s.Join(alice, r) }, imp, (*Packet).Release)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			p := a.Get(64)
			p.Dst = alice
			a.Send(p)
		}), name)
		require.NoError(t, a.Close())
	}
}

func BenchmarkImpaired(b *testing.B) {
	for name, imp := range map[string]Impairments{"nothing": {}, "loss": {Loss: 0.01}} {
		b.Run(name, func(b *testing.B) {
			s := NewSwitch()
			a, err := Impair(func(r Receiver) (Link, error) { return s.Join(alice, r) }, imp, (*Packet).Release)
			require.NoError(b, err)
			defer a.Close()
			b.ReportAllocs()
			for b.Loop() {
				p := a.Get(64)
				p.Dst = alice
				a.Send(p)
			}
		})
	}
}

// Only packets of senders that heed marks are marked, and nothing else happens to any.
func TestMark(t *testing.T) {
	a, b, _, atB := spoiled(t, Impairments{Seed: 1, Mark: 0.25})
	classes := map[uint8]int{}
	for i := range uint32(4000) {
		p := numbered(b.Addr(), i, 4)
		p.TClass = 0xb8 + uint8(i%4)
		a.Send(p)
		classes[atB.last.TClass]++
	}
	require.Equal(t, numbers(0, 4000), atB.got())
	out, _ := a.Effects()
	require.Equal(t, 1000, classes[0xb8])
	require.EqualValues(t, classes[0xbb]-1000, out.Marked)
	require.InDelta(t, 500, int(out.Marked), 100, "a quarter of two thousand; the rest can be marked no more")
}
