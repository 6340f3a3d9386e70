package softnic

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// holding is a link whose ends hold so many packets of the test's size.
type holding struct {
	link.Link
	packets int
	sent    func()
}

func (l *holding) Buffer() int { return l.packets * link.Held(packetSize(verbs.MTU1024)) }

func (l *holding) Send(p *link.Packet) {
	l.Link.Send(p)
	if l.sent != nil {
		l.sent()
	}
}

// sendersToOne is one NIC with queue pairs to another one that holds few packets. Each has a
// completion queue of its own.
type sendersToOne struct {
	*rawPair
	qs  []*rawQP
	cqs []*rawCQ
	// most is how many packets were under way at once.
	most int
}

func newSendersToOne(t *testing.T, pairs, holds int) *sendersToOne {
	cfg := private()
	cfg.Faults.Delay = 50 * time.Microsecond
	c := &sendersToOne{rawPair: newRawPair(t, cfg)}
	n := c.na
	outer := n.gids[3].link.(*link.Impaired)
	outer.Link = &holding{Link: outer.Link, packets: holds} // of which the window is made
	l := &holding{Link: outer, packets: holds, sent: func() {
		total := 0
		for _, q := range n.qps {
			total += q.connection.Outstanding()
		}
		c.most = max(c.most, total)
	}}
	n.gids[3].link = l
	for range pairs {
		done := c.a.createCQ(64, true)
		a, b := c.a.createQP(16, 0, done, done), c.b.createQP(4, 0, c.cb, c.cb)
		for _, m := range []struct{ q, peer *rawQP }{{a, b}, {b, a}} {
			m.q.connect(m.peer)
		}
		n.lock()
		q := n.qps[a.qpn]
		q.way.neighbor = nil // as if it were in another process
		q.join()
		n.unlock()
		c.qs, c.cqs = append(c.qs, a), append(c.cqs, done)
	}
	return c
}

// wantDone waits for so many completions of each queue pair, and returns how many each had
// when the first had all of them.
func (c *sendersToOne) wantDone(want int) (then []int) {
	done := make([]int, len(c.qs))
	began := time.Now()
	for missing := len(c.qs); missing > 0; {
		for i, cq := range c.cqs {
			for e := cq.next(); e != nil; e = cq.next() {
				require.Equal(c.a.t, prm.CQERequester, e.Opcode(), "%v", e.Syndrome())
				if done[i]++; done[i] == want {
					missing--
					if then == nil {
						then = append(then, done...)
					}
				}
			}
		}
		require.Less(c.a.t, time.Since(began), 10*time.Second, "done: %v", done)
		time.Sleep(10 * time.Microsecond)
	}
	return then
}

// wantEmpty checks that nothing is under way, for so many queue pairs, and none waits.
func (c *sendersToOne) wantEmpty(users int) {
	c.na.lock()
	defer c.na.unlock()
	d := c.na.qps[c.qs[0].qpn].share.to
	require.Zero(c.a.t, d.used)
	require.Empty(c.a.t, d.line)
	require.Equal(c.a.t, users, d.users)
}

func destroyQP(t *testing.T, q *rawQP) {
	_, _, err := q.r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: q.handle}), 4, nil, 0)
	require.NoError(t, err)
}

// What all queue pairs have under way to one address is never more than an end there
// holds; all get on, about as fast, and nothing is left when they are gone.
func TestDestinationHolds(t *testing.T) {
	for name, c := range map[string]struct {
		op           prm.Opcode
		pairs, holds int
		works, size  int
	}{
		"WRITE": {prm.OpWrite, 40, 12, 6, 5 << 10},
		"READ":  {prm.OpRead, 40, 12, 6, 5 << 10},
		// None by itself would ask for an acknowledgement before the buffer is full.
		"long WRITE": {prm.OpWrite, 60, 500, 3, 60 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSendersToOne(t, c.pairs, c.holds)
				for _, q := range s.qs {
					for range c.works {
						q.post(q.entry(c.op, s.ma, 0, c.size, s.mb.addr, s.mb.key))
					}
				}
				for i, n := range s.wantDone(c.works) {
					require.Positive(t, n, "queue pair %d had to wait until another had done everything", i)
				}
				counters := s.na.Counters()
				require.Zero(t, counters.Timeouts, "%+v", counters)
				s.wantEmpty(len(s.qs))
				s.na.lock()
				require.LessOrEqual(t, s.most, c.holds)
				require.Greater(t, s.most, c.holds/2, "room was left unused")
				s.na.unlock()
				for _, q := range s.qs {
					destroyQP(t, q)
				}
				require.Empty(t, s.na.destinations)
			})
		})
	}
}

// Queue pairs that end give their room back, and their place in line.
func TestDestinationOutlivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSendersToOne(t, 20, 8)
		for _, q := range c.qs {
			for range 4 {
				q.post(q.entry(prm.OpWrite, c.ma, 0, 16<<10, c.mb.addr, c.mb.key))
			}
		}
		for i, q := range c.qs {
			switch i % 4 {
			case 1:
				destroyQP(t, q)
			case 2:
				require.NoError(t, c.a.modify(q.to(uapi.QPErr)))
			case 3:
				require.NoError(t, c.a.modify(q.to(uapi.QPReset)))
			}
		}
		kept := &sendersToOne{rawPair: c.rawPair}
		for i := 0; i < len(c.qs); i += 4 {
			kept.qs, kept.cqs = append(kept.qs, c.qs[i]), append(kept.cqs, c.cqs[i])
		}
		kept.wantDone(4)
		c.wantEmpty(10) // those in use and those in error
	})
}

// One queue pair has half of what an end holds under way, if that is less than usual.
func TestWindowFitsBuffer(t *testing.T) {
	n := newTestNIC(t, private())
	require.Equal(t, 128, n.window())
	n.mtu = verbs.MTU1024
	whole := n.links[0].Link
	for holds, want := range map[int]int{2000: 128, 50: 25, 1: 1} {
		n.links[0].Link = &holding{Link: whole, packets: holds}
		require.Equal(t, want, n.window(), holds)
	}
}

// What hundreds of queue pairs send at once over UDP is many times what a socket holds.
func TestBurst(t *testing.T) {
	const pairs, works = 200, 4
	cfg := func() Config { return Config{Network: NewNetwork(), Link: LinkUDP, NoSharedMemory: true} }
	p := unconnectedRaw(t, newTestNIC(t, cfg()), newTestNIC(t, cfg()))
	c := &sendersToOne{rawPair: p}
	for range pairs {
		done := p.a.createCQ(16, true)
		a, b := p.a.createQP(16, 0, done, done), p.b.createQP(4, 0, p.cb, p.cb)
		for _, ends := range [][2]*rawQP{{a, b}, {b, a}} {
			q := ends[0]
			ready := q.toRTS()
			ready.Timeout, ready.RetryCnt = 14, 7
			for _, m := range []uapi.ModifyQP{q.toInit(), q.toRTR(ends[1]), ready} {
				require.NoError(t, q.r.modify(m))
			}
		}
		c.qs, c.cqs = append(c.qs, a), append(c.cqs, done)
	}
	for _, q := range c.qs {
		for range works {
			q.post(q.entry(prm.OpWrite, p.ma, 0, 60<<10, p.mb.addr, p.mb.key))
		}
	}
	for _, done := range c.cqs {
		for range works {
			done.wants(prm.CQERequester, 0, 0)
		}
	}
}
