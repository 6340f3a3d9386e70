package softnic

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// transfer sends messages of every size from one end to the other and checks
// that they arrive whole, once and in order, in virtual time.
func (p *rawPair) transfer(t *testing.T, messages int) {
	for i := range messages {
		size := 1 + i*997%9000
		for j := range size {
			p.ma.b[j] = byte(i + j)
		}
		p.qb.receive(p.mb.segment(0, 10000))
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, size, 0, 0))
		e := p.cb.sleepFor()
		require.Equal(t, prm.CQEReceive, e.Opcode(), "message %d: %v", i, e.Syndrome())
		require.EqualValues(t, size, e.ByteCount())
		require.Equal(t, p.ma.b[:size], p.mb.b[:size])
		e = p.ca.sleepFor()
		require.Equal(t, prm.CQERequester, e.Opcode(), "message %d: %v", i, e.Syndrome())
	}
}

// sleepFor is wait in virtual time.
func (q *rawCQ) sleepFor() prm.CQE {
	q.r.t.Helper()
	for range 100000 {
		if e := q.next(); e != nil {
			return e
		}
		time.Sleep(100 * time.Microsecond)
	}
	require.Fail(q.r.t, "no completion in 10 s")
	return nil
}

func inBubble(t *testing.T, cfg Config, f func(t *testing.T, p *rawPair)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cfg
		if cfg.Network == nil {
			cfg.Network = NewNetwork()
		}
		f(t, newRawPair(t, cfg))
	})
}

func TestFaultyLink(t *testing.T) {
	for name, f := range map[string]Faults{
		"loss":      {Loss: 0.1},
		"duplicate": {Duplicate: 0.3},
		"reorder":   {Reorder: 0.2},
		"corrupt":   {Corrupt: 0.1},
		"delay":     {Delay: time.Millisecond, Jitter: time.Millisecond},
		"all":       {Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.01, Delay: 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Link: LinkMemory, Faults: f, Seed: 7}, func(t *testing.T, p *rawPair) {
				p.a.retry(p.qa, p.qb)
				p.transfer(t, 200)
				c, d := p.na.Counters(), p.nb.Counters()
				switch {
				case f.Loss > 0:
					require.NotZero(t, c.Retransmits)
				case f.Duplicate > 0:
					require.NotZero(t, d.Duplicates)
				case f.Corrupt > 0:
					require.NotZero(t, c.DropICRC+d.DropICRC)
				case f.Reorder > 0:
					require.NotZero(t, d.OutOfSequence)
				}
			})
		})
	}
}

// retry reconnects with as many retries as there are.
func (r *raw) retry(qs ...*rawQP) {
	for i, q := range qs {
		require.NoError(r.t, q.r.modify(q.to(uapi.QPReset)))
		rts := q.toRTS()
		rts.RetryCnt = 7
		for _, m := range []uapi.ModifyQP{q.toInit(), q.toRTR(qs[1-i]), rts} {
			require.NoError(r.t, q.r.modify(m))
		}
	}
}

// The same seed gives the same faults.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (c Counters) {
		inBubble(t, Config{Link: LinkMemory, Faults: Faults{Loss: 0.1, Late: 0.5}, Seed: seed}, func(t *testing.T, p *rawPair) {
			p.transfer(t, 50)
			c = p.na.Counters()
		})
		return c
	}
	require.Equal(t, run(3), run(3))
	require.NotEqual(t, run(3), run(4))
}

func TestLateCompletions(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory, Faults: Faults{Late: 0.3, LateBy: 20 * time.Millisecond}, Seed: 1}, func(t *testing.T, p *rawPair) {
		start := time.Now()
		for range 16 {
			p.qa.nop(prm.CQEUpdate)
		}
		for i := range 16 {
			require.EqualValues(t, i, p.ca.sleepFor().WQECounter(), "order")
		}
		require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
		require.NotZero(t, p.na.Counters().LateCompletions)
	})
}

// Completions held back for a queue pair go with it.
func TestLateCompletionsOfDestroyed(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory, Faults: Faults{Late: 1, LateBy: time.Second}}, func(t *testing.T, p *rawPair) {
		other := p.a.createCQ(16, false)
		for _, cqs := range [][2]*rawCQ{{p.ca, other}, {other, p.ca}} {
			q := p.a.createQP(16, 16, cqs[0], cqs[1])
			q.connect(q)
			q.receive(p.ma.segment(0, 8))
			q.post(q.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
			_, _, err := p.a.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: q.handle}), 4, nil, 0)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			require.Nil(t, p.ca.next())
			require.Nil(t, other.next())
		}
		require.NoError(t, p.na.SetFaults(Faults{}))
		require.Error(t, p.na.SetFaults(Faults{Loss: 2}))
	})
}

func TestWithheldCompletions(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory, Faults: Faults{Withhold: 0.2}, Seed: 5}, func(t *testing.T, p *rawPair) {
		for range 16 {
			p.qa.nop(prm.CQEUpdate)
		}
		time.Sleep(time.Hour)
		got := 0
		for p.ca.next() != nil {
			got++
		}
		require.Less(t, got, 16)
		require.NoError(t, p.na.SetFaults(Faults{}))
		p.na.ReleaseCompletions()
		for ; got < 16; got++ {
			require.EqualValues(t, got, p.ca.sleepFor().WQECounter())
		}
		p.na.HoldCompletions()
		p.qa.nop(prm.CQEUpdate)
		require.Nil(t, p.ca.next())
		p.na.ReleaseCompletions()
		require.NotNil(t, p.ca.next())
		require.EqualValues(t, 17, p.na.Counters().Completions)
	})
}

// A port that is down loses everything; up again in time, nobody noticed but by
// the events.
func TestPortDown(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		p.na.SetPort(false)
		p.na.SetPort(false)
		require.EqualValues(t, 1, p.a.readAsync(uapi.EventPortErr))
		reply, _, err := p.a.write(uapi.CmdQueryPort, enc(uapi.QueryPort{PortNum: 1}), 40, nil, 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, reply[26], "DOWN")
		p.qb.receive(p.mb.segment(0, 10))
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		p.nb.SetPort(false)
		time.Sleep(5 * time.Millisecond)
		p.nb.SetPort(true)
		p.na.SetPort(true)
		require.EqualValues(t, 1, p.a.readAsync(uapi.EventPortActive))
		require.Equal(t, prm.CQEReceive, p.cb.sleepFor().Opcode())
		require.Equal(t, prm.CQERequester, p.ca.sleepFor().Opcode())
		require.NotZero(t, p.na.Counters().DropPortDown)
		p.nb.SetPort(false)
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		e := p.ca.sleepFor()
		require.Equal(t, prm.SyndromeRetryExceeded, e.Syndrome())
		require.Equal(t, detailRetries, detail(e.VendorSyndrome()))
		require.NotZero(t, p.nb.Counters().DropPortDown)
		require.NotZero(t, p.na.Counters().Timeouts)
	})
}

// Faults that come by themselves.
func TestScheduledFaults(t *testing.T) {
	faults := Faults{PortDown: time.Second, PortUp: 2 * time.Second, Fatal: 3 * time.Second}
	inBubble(t, Config{Link: LinkMemory, Faults: faults}, func(t *testing.T, p *rawPair) {
		start := time.Now()
		require.EqualValues(t, 1, p.a.readAsync(uapi.EventPortErr))
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 1, p.a.readAsync(uapi.EventPortActive))
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Zero(t, p.a.readAsync(uapi.EventDeviceFatal))
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// The peer vanishes: retries end.
func TestPeerGone(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		require.NoError(t, p.nb.Close())
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		require.Equal(t, prm.SyndromeRetryExceeded, p.ca.sleepFor().Syndrome())
		require.NotZero(t, p.na.Counters().DropUnreachable)
	})
}

// Short deadlines are kept though longer ones are waited for: a receiver that is
// not ready is asked again after 0.01 ms, not after the transport timer.
func TestShortDeadlines(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
		time.Sleep(time.Millisecond)
		c := p.na.Counters()
		require.Greater(t, c.RNRNaksReceived, uint64(20))
		_, _, err := p.a.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: p.qa.handle}), 4, nil, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, p.na.Counters().RNRNaksReceived, c.RNRNaksReceived, "counted though it is gone")
	})
}

// Receives of a queue pair in error are looked for seldom in the end, but soon
// again when another one goes to error.
func TestFlushPolling(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		other := p.a.createQP(16, 16, p.ca, p.ca)
		other.connect(p.qb)
		require.NoError(t, p.a.modify(p.qa.to(uapi.QPErr)))
		time.Sleep(10 * time.Second)
		p.qa.receive(p.ma.segment(0, 8))
		require.Nil(t, p.ca.next())
		start := time.Now()
		require.Equal(t, prm.SyndromeFlushed, p.ca.sleepFor().Syndrome())
		require.LessOrEqual(t, time.Since(start), maxFlushWait+time.Millisecond)
		time.Sleep(10 * time.Second)
		require.NoError(t, p.a.modify(other.to(uapi.QPErr)))
		other.receive(p.ma.segment(0, 8))
		start = time.Now()
		require.Equal(t, other.qpn, p.ca.sleepFor().QPN())
		require.LessOrEqual(t, time.Since(start), 3*time.Millisecond)
	})
}

// A fenced entry is not sent before the answer to the read ahead of it is there.
func TestFence(t *testing.T) {
	for _, flags := range []uint8{0, prm.Fence} {
		inBubble(t, Config{Link: LinkMemory, Faults: Faults{Delay: time.Millisecond}}, func(t *testing.T, p *rawPair) {
			p.ma.b[0] = 1
			p.qa.post(p.qa.entry(prm.OpRead, p.ma, 64, 8, p.mb.addr+64, p.mb.key))
			w := p.qa.entry(prm.OpWrite, p.ma, 0, 1, p.mb.addr, p.mb.key)
			w[11] |= flags
			p.qa.post(w)
			start := time.Now()
			for p.mb.b[0] == 0 {
				time.Sleep(100 * time.Microsecond)
				synctest.Wait()
			}
			if flags == 0 {
				require.Less(t, time.Since(start), 2*time.Millisecond)
			} else {
				require.GreaterOrEqual(t, time.Since(start), 3*time.Millisecond)
			}
		})
	}
}

// What is too much for the goroutine that rings is done by the NIC's own, at once.
func TestHandOver(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		start := time.Now()
		var w []byte
		for range 14 {
			w = p.qa.entry(prm.OpWrite, p.ma, 0, 64<<10, p.mb.addr, p.mb.key)
			p.qa.put(w)
		}
		p.qa.doorbell(w)
		synctest.Wait()
		for range 14 {
			require.NotNil(t, p.ca.next())
		}
		require.Zero(t, time.Since(start))
	})
	n := newTestNIC(t, private())
	n.lock()
	for range inlineWork {
		n.deliver(link.Get(16))
	}
	did := n.process(inlineWork)
	n.unlock()
	require.Equal(t, inlineWork, did)
}

// An idle NIC does nothing: no timer, though there are queue pairs.
func TestIdle(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		p.transfer(t, 1)
		time.Sleep(time.Minute)
		before := p.na.Counters()
		p.na.lock()
		armed := !p.na.timerAt.IsZero() && p.na.timerAt.After(time.Now())
		p.na.unlock()
		require.False(t, armed)
		time.Sleep(time.Hour)
		require.Equal(t, before, p.na.Counters())
	})
}

// The reason of every refusal is in the log.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	cfg := private()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Name = "card"
	r := newRaw(t, newTestNIC(t, cfg))
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	q.connect(q)
	_, _, err := r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: r.pd}), 0, nil, 0)
	require.Error(t, err)
	q.post(q.entry(prm.OpSend, rawMR{key: 5}, 0, 8, 0, 0))
	cq.wants(prm.CQERequesterError, prm.SyndromeLocalProtection, detailKey)
	q.doorbell(make([]byte, 16))
	r.ring(0, prm.SendRegister, binary.NativeEndian.Uint64([]byte{0, 0, 0, 0, 1, 2, 3, 4}))
	for _, want := range []string{"nic=card", "DEALLOC_PD", "has 1 users", "unknown key", "send doorbell for no queue pair"} {
		require.Contains(t, log.String(), want)
	}
	for d := range 256 {
		require.NotEmpty(t, detail(d).String())
	}
}
