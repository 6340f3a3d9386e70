package softnic

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// rateOf is that of a queue pair, 0 for as fast as can be.
func (r *raw) rateOf(q *rawQP) float64 {
	r.nic.lock()
	defer r.nic.unlock()
	if rate := r.nic.qps[q.qpn].rate; rate != nil {
		return rate.BytesPerSecond()
	}
	return 0
}

// marking is a connected pair of NICs of which the first one's packets are marked, as
// many as the share says.
func marking(t *testing.T, share float64, layer verbs.LinkLayer) *rawPair {
	network := NewNetwork()
	return connectRaw(t, newTestNIC(t, Config{Link: LinkMemory, Network: network, LinkLayer: layer, Seed: 1, Faults: Faults{Mark: share}}),
		newTestNIC(t, Config{Link: LinkMemory, Network: network, LinkLayer: layer}))
}

// write writes n bytes to the other end, in virtual time.
func (p *rawPair) write(t *testing.T, n int) {
	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, n, p.mb.addr, p.mb.key))
	require.Equal(t, prm.CQERequester, p.ca.sleepFor().Opcode())
	require.Equal(t, p.ma.b[:n], p.mb.b[:n])
}

// Marked packets are told of, seldom; their sender slows down, and with no marks any
// more it is as fast as ever.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := marking(t, 1, verbs.LinkEthernet)
		for i := range p.ma.b {
			p.ma.b[i] = byte(i * 7)
		}
		began := time.Now()
		for range 50 {
			p.write(t, 60_000)
		}
		a, b := p.na.Counters(), p.nb.Counters()
		require.EqualValues(t, 50*59, b.MarksReceived, "MTU 1024: 59 packets each")
		require.Zero(t, a.MarksReceived, "acknowledgements are of the other NIC")
		require.NotZero(t, b.NoticesSent)
		require.Equal(t, b.NoticesSent, a.NoticesReceived)
		require.LessOrEqual(t, b.NoticesSent, uint64(time.Since(began)/(50*time.Microsecond))+1)
		require.Greater(t, a.NoticesReceived, uint64(10))
		slow := p.a.rateOf(p.qa)
		require.NotZero(t, slow)
		require.Less(t, slow, lineRate/100)
		require.Greater(t, time.Since(began), time.Millisecond, "packets wait for their time")
		require.Zero(t, a.Retransmits+a.Timeouts+b.DropMalformed)
		require.NoError(t, p.na.links[0].Set(link.Impairments{}))
		time.Sleep(time.Second)
		p.write(t, 60_000)
		require.Zero(t, p.a.rateOf(p.qa))
	})
}

// What is never marked has no rate; on InfiniBand nothing is marked.
func TestNoMarks(t *testing.T) {
	for layer, share := range map[verbs.LinkLayer]float64{verbs.LinkEthernet: 0, verbs.LinkInfiniBand: 1} {
		synctest.Test(t, func(t *testing.T) {
			p := marking(t, share, layer)
			for range 10 {
				p.write(t, 60_000)
			}
			c := p.nb.Counters()
			require.Zero(t, c.MarksReceived+c.NoticesSent)
			require.Zero(t, p.a.rateOf(p.qa))
		})
	}
}

// A lost packet halves the rate.
func TestLossSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewNetwork()
		na := newTestNIC(t, Config{Link: LinkMemory, Network: network, Seed: 3, Faults: Faults{Loss: 0.02, Delay: 20 * time.Microsecond}})
		p := connectRaw(t, na, newTestNIC(t, Config{Link: LinkMemory, Network: network}))
		least := float64(lineRate)
		for range 20 {
			p.write(t, 60_000)
			if r := p.a.rateOf(p.qa); r > 0 {
				least = min(least, r)
			}
		}
		require.NotZero(t, p.na.Counters().Retransmits)
		require.LessOrEqual(t, least, float64(lineRate)*0.75)
	})
}

// fakePeer is a link in the place of a queue pair's peer.
func fakePeer(t *testing.T) (r *raw, q *rawQP, l link.Link, heard func() [][]byte) {
	n := newTestNIC(t, private())
	r = newRaw(t, n)
	cq := r.createCQ(64, false)
	q = r.createQP(16, 16, cq, cq)
	var got []*link.Packet
	l, err := n.network.links.Join(netip.MustParseAddr("127.9.9.1"), func(p *link.Packet) { got = append(got, p) })
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	rtr := q.toRTR(q)
	rtr.Dest.Dgid, rtr.DestQPNum = verbs.GIDFrom(l.Addr()), 0x123456
	for _, m := range []uapi.ModifyQP{q.toInit(), rtr, q.toRTS()} {
		require.NoError(t, r.modify(m))
	}
	return r, q, l, func() (b [][]byte) {
		n.Counters() // all is done that was brought before
		for _, p := range got {
			b = append(b, append([]byte{p.TClass}, p.Buf...))
		}
		got = nil
		return b
	}
}

// A notification, byte by byte; and what is none.
func TestNotice(t *testing.T) { synctest.Test(t, testNotice) } // no time passes

func testNotice(t *testing.T) {
	r, q, l, heard := fakePeer(t)
	send := func(class uint8, b []byte) {
		p := l.Get(len(b))
		copy(p.Buf, b)
		p.Dst, p.TClass = r.nic.Addr(), class
		l.Send(p)
	}
	ask := roce.Header{Opcode: roce.WriteOnly, DestQP: q.qpn, PSN: 100}
	for range 3 {
		send(ecnExperienced, ask.Append(nil, nil))
		ask.PSN++
	}
	notice := []byte{0, 0x81, 0, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	require.Equal(t, [][]byte{notice}, heard(), "once in 50 us, in a class that is not marked")
	require.EqualValues(t, 3, r.nic.Counters().MarksReceived)

	good := roce.Header{Opcode: roce.CongestionNotification, BECN: true, DestQP: q.qpn}
	send(0, good.Append(nil, make([]byte, noticePayload)))
	require.EqualValues(t, 1, r.nic.Counters().NoticesReceived)
	require.Equal(t, lineRate/2, r.rateOf(q))
	send(0, good.Append(nil, make([]byte, noticePayload+4)))
	send(0, good.Append(nil, nil))
	good.BECN = false
	send(0, good.Append(nil, make([]byte, noticePayload)))
	c := r.nic.Counters()
	require.EqualValues(t, 1, c.NoticesReceived)
	require.EqualValues(t, 3, c.DropMalformed)
	require.Equal(t, c.PacketsReceived, c.PacketsAccepted+c.DropMalformed)
	require.EqualValues(t, uapi.QPRTS, q.state())
}
