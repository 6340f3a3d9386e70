package softnic

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// memoryThen is memory of which words are read after something else is done.
type memoryThen struct {
	memory
	before func()
}

func (m memoryThen) Load32(addr uint64) (uint32, bool) {
	m.before()
	return m.memory.Load32(addr)
}

// The timer fires while the engine runs by a clock that it read before: the timer is
// set again all the same.
func TestTimerFiresWhileTheEngineRuns(t *testing.T) {
	n := newTestNIC(t, private())
	n.lock()
	read := n.now
	n.timerAt = time.Now().Add(time.Hour) // later than any clock of this run
	n.timerFired()
	n.unlock()
	n.lock()
	defer n.unlock()
	require.Zero(t, n.timerAt)
	require.True(t, n.now.After(read))
}

// A goroutine that brings work gets away, though more is brought whenever it seems
// to be done.
func TestShare(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		require.NoError(t, p.a.modify(p.qa.to(uapi.QPErr)))
		n := p.na
		var looks atomic.Int32
		var away atomic.Bool
		n.lock()
		n.flushWait, n.flushAt = minFlushWait, n.now
		n.qps[p.qa.qpn].mem = memoryThen{ownMemory{}, func() {
			if looks.Add(1) < 8*inlineWork && !away.Load() {
				time.Sleep(2 * maxFlushWait)
				n.pending.Store(true)
			}
		}}
		n.unlock()
		n.kick()
		away.Store(true)
		require.Less(t, looks.Load(), int32(2*inlineWork))
		time.Sleep(time.Minute)
	})
}

// However many packets wait, the engine takes a few between looks at the clock and
// at everything else.
func TestPacketsInPortions(t *testing.T) {
	n := newTestNIC(t, private())
	n.lock()
	for range 20 * clockWork {
		n.deliver(link.Get(16))
	}
	require.Equal(t, clockWork, n.takePackets(n.now))
	require.LessOrEqual(t, n.process(2*clockWork), 3*clockWork)
	n.handOver()
	n.unlock()
	require.Eventually(t, func() bool { return n.Counters().DropUnknownQP == 20*clockWork },
		10*time.Second, time.Millisecond)
}

// A queue that overruns outside the engine's run takes its queue pairs down all the same.
func TestOverrunOnRelease(t *testing.T) {
	r, _, q := loopback(t, private(), 16, 16, 4)
	r.nic.HoldCompletions()
	for range 5 {
		q.nop(prm.CQEUpdate)
	}
	r.nic.ReleaseCompletions()
	require.EqualValues(t, 1, r.nic.Counters().Overruns)
	require.EqualValues(t, uapi.QPErr, q.state())
}

// What was withheld does not overtake what is late.
func TestReleaseBehindLate(t *testing.T) {
	cfg := Config{Link: LinkMemory, Faults: Faults{Late: 1, LateBy: 10 * time.Millisecond}}
	inBubble(t, cfg, func(t *testing.T, p *rawPair) {
		p.qa.nop(prm.CQEUpdate)
		p.na.HoldCompletions()
		p.qa.nop(prm.CQEUpdate)
		p.na.ReleaseCompletions()
		require.Nil(t, p.ca.next())
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 0, p.ca.next().WQECounter())
		require.EqualValues(t, 1, p.ca.next().WQECounter())
		require.EqualValues(t, 2, p.na.Counters().Completions)
	})
}

// Receives posted to a queue pair in error are flushed with the next doorbell of
// that queue pair, or in a while. Doorbells of others do not look for them.
func TestFlushPosted(t *testing.T) {
	inBubble(t, Config{Link: LinkMemory}, func(t *testing.T, p *rawPair) {
		other := p.a.createQP(16, 16, p.ca, p.ca)
		other.connect(other)
		require.NoError(t, p.a.modify(p.qa.to(uapi.QPErr)))
		p.qa.receive(p.ma.segment(0, 8))
		start := time.Now()
		p.qa.nop(0)
		require.Zero(t, time.Since(start))
		p.ca.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
		p.ca.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed)

		p.qa.receive(p.ma.segment(0, 8))
		other.nop(prm.CQEUpdate)
		require.Equal(t, prm.CQERequester, p.ca.next().Opcode())
		require.Nil(t, p.ca.next())
		time.Sleep(2 * minFlushWait)
		synctest.Wait()
		require.Equal(t, prm.CQEResponderError, p.ca.next().Opcode())
	})
}

// A NIC that sends to itself by many queue pairs takes in what it sent before it sends
// more than it has room for.
func TestCrowd(t *testing.T) {
	const pairs, length = maxInbox/128 + 32, 128 * 256 // windows of 128 packets, of 256 bytes
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(256, false)
	m := r.regMR(length, allAccess)
	qps := make([]*rawQP, pairs)
	for i := range qps {
		qps[i] = r.createQP(4, 4, cq, cq)
		rtr, rts := qps[i].toRTR(qps[i]), qps[i].toRTS()
		rtr.PathMTU, rts.Timeout = uint8(verbs.MTU256), 0
		for _, m := range []uapi.ModifyQP{qps[i].toInit(), rtr, rts} {
			require.NoError(t, r.modify(m))
		}
	}
	r.nic.mu.Lock() // until all have work
	for _, q := range qps {
		q.post(q.entry(prm.OpWrite, m, 0, length, m.addr, m.key))
	}
	r.nic.unlock()
	for range qps {
		require.False(t, cq.wait().Opcode().IsError())
	}
	require.Zero(t, r.nic.Counters().DropOverflow)
}
