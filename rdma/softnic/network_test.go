package softnic

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// exchange sends a message each way.
func (p *rawPair) exchange(t *testing.T) {
	copy(p.ma.b, "there and back")
	p.qb.receive(p.mb.segment(0, 100))
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 14, 0, 0))
	p.cb.wants(prm.CQEReceive, 0, 0)
	p.ca.wants(prm.CQERequester, 0, 0)
	p.qa.receive(p.ma.segment(100, 100))
	p.qb.post(p.qb.entry(prm.OpSend, p.mb, 0, 14, 0, 0))
	p.ca.wants(prm.CQEReceive, 0, 0)
	p.cb.wants(prm.CQERequester, 0, 0)
	require.Equal(t, "there and back", string(p.ma.b[100:114]))
}

func TestInfiniBand(t *testing.T) {
	network := NewNetwork()
	p := newRawPair(t, Config{LinkLayer: verbs.LinkInfiniBand, Network: network})
	require.NotEqual(t, p.na.LID(), p.nb.LID())
	require.NotZero(t, p.na.LID())
	require.False(t, p.na.Addr().IsValid())
	p.exchange(t)
	reply, _, err := p.a.write(uapi.CmdQueryPort, enc(uapi.QueryPort{PortNum: 1}), 40, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, p.na.LID(), uint16(reply[22])|uint16(reply[23])<<8)
	require.EqualValues(t, uapi.LinkLayerInfiniBand, reply[37])
	require.NoError(t, p.a.modify(p.qa.to(uapi.QPReset)))
	require.NoError(t, p.a.modify(p.qa.toInit()))
	for _, lid := range []uint16{0, 0xc000} {
		m := p.qa.toRTR(p.qb)
		m.Dest.Dlid = lid
		requireErrno(t, einval, p.a.modify(m))
	}
	// A LID nobody has is found out by the retries only.
	m := p.qa.toRTR(p.qb)
	m.Dest.Dlid = 0x1234
	require.NoError(t, p.a.modify(m))
	// With a global route, whose source index is checked.
	require.NoError(t, p.a.modify(p.qa.to(uapi.QPReset)))
	require.NoError(t, p.a.modify(p.qa.toInit()))
	m = p.qa.toRTR(p.qb)
	m.Dest.IsGlobal, m.Dest.Dgid, m.Dest.SgidIndex = 1, p.nb.GID(), 9
	requireErrno(t, einval, p.a.modify(m))
	m.Dest.SgidIndex = 0
	requireErrno(t, 0, p.a.modify(m))

	first := p.na.LID()
	require.NoError(t, p.na.Close())
	again := newTestNIC(t, Config{LinkLayer: verbs.LinkInfiniBand, Network: network})
	require.Equal(t, first, again.LID(), "LIDs are given back")
}

func TestNoFreeLID(t *testing.T) {
	network := NewNetwork()
	const last = 3
	for range last {
		newTestNIC(t, Config{LinkLayer: verbs.LinkInfiniBand, Network: network})
	}
	n := &NIC{network: network}
	_, err := n.takeLID(last)
	require.ErrorIs(t, err, errNoLID)
}

// The kinds of addresses an Ethernet port has.
func TestEthernetAddresses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"IPv4":       {Addr: netip.MustParseAddr("10.0.0.1")},
		"IPv6":       {Addr: netip.MustParseAddr("fd00::1")},
		"MTU 256":    {MTU: verbs.MTU256},
		"old static": {StaticUAR: true, OldCQE: true},
		"no BF":      {StaticUAR: true, NoBlueFlame: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Network, cfg.Link = NewNetwork(), LinkMemory
			na := newTestNIC(t, cfg)
			cfg.Addr = netip.Addr{}
			if na.Addr().Is6() {
				cfg.Addr = netip.MustParseAddr("fd00::2")
			}
			nb := newTestNIC(t, cfg)
			p := &rawPair{na: na, nb: nb, a: newRaw(t, na), b: newRaw(t, nb)}
			p.ca, p.cb = p.a.createCQ(64, true), p.b.createCQ(64, true)
			p.qa, p.qb = p.a.createQP(16, 16, p.ca, p.ca), p.b.createQP(16, 16, p.cb, p.cb)
			p.ma, p.mb = p.a.regMR(4096, allAccess), p.b.regMR(4096, allAccess)
			p.qa.static(t)
			p.qb.static(t)
			for i, q := range []*rawQP{p.qa, p.qb} {
				rtr := q.toRTR([]*rawQP{p.qb, p.qa}[i])
				rtr.PathMTU = uint8(na.MTU())
				if rtr.PathMTU > uint8(verbs.MTU1024) {
					rtr.PathMTU = uint8(verbs.MTU1024)
				}
				for _, m := range []uapi.ModifyQP{q.toInit(), rtr, q.toRTS()} {
					require.NoError(t, q.r.modify(m))
				}
			}
			p.exchange(t)
			require.Zero(t, na.Counters().BadDoorbells)
		})
	}
}

// static prepares doorbells of a queue pair with a register of its own.
func (q *rawQP) static(t *testing.T) {
	if q.r.file.dynamic() {
		return
	}
	page := q.register / prm.PageRegisters
	p, err := q.r.file.Map(prm.MapOffset(prm.MapRegular, page, pageSize()), pageSize())
	require.NoError(t, err)
	q.r.pages = append(q.r.pages, p)
	q.page = len(q.r.pages) - 1
	if q.noToggle = q.r.nic.cfg.NoBlueFlame; !q.noToggle {
		q.base = int(q.register%prm.PageRegisters) * blueFlameSize
	}
}

// Static registers: each low-latency one has a queue pair to itself, the others
// share, and the first is spared.
func TestStaticRegisters(t *testing.T) {
	cfg := private()
	cfg.StaticUAR = true
	r := newRaw(t, newTestNIC(t, cfg))
	cq := r.createCQ(256, false)
	seen := map[uint32]int{}
	var first uint32
	for i := range 30 {
		q := r.createQP(1, 0, cq, cq)
		seen[q.register]++
		if i == 0 {
			first = q.handle
		}
	}
	// 16 registers in 8 pages, two of four numbers each: the last four are
	// low-latency, 26 queue pairs on the other eleven.
	for register, n := range seen {
		require.Less(t, register%4, uint32(2))
		switch {
		case register >= 6*4:
			require.Equal(t, 1, n, "register %d", register)
		default:
			require.NotZero(t, register)
			require.Contains(t, []int{2, 3}, n, "register %d", register)
		}
	}
	require.Len(t, seen, 15)
	_, _, err := r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: first}), 4, nil, 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.createQP(1, 0, cq, cq).register, uint32(6*4), "a register given back is taken again")
	q := r.createQP(1, 0, cq, cq)
	q.connect(q)
	w := make([]byte, prm.Unit)
	prm.PutCtrl(w, new(q.ctrl(prm.OpNop, 1)))
	q.put(w)
	before := r.nic.Counters().BadDoorbells
	r.ring(0, prm.SendRegister, prm.SendDoorbell(w))
	require.Equal(t, before+1, r.nic.Counters().BadDoorbells, "another's register")
}

// Two NICs on two networks: packets go over UDP, or by shared memory.
func TestUDP(t *testing.T) {
	for name, off := range map[string]bool{"UDP": true, "shared memory": false} {
		t.Run(name, func(t *testing.T) { testUDP(t, off) })
	}
}

func testUDP(t *testing.T, noSharedMemory bool) {
	alone := func() *NIC {
		return newTestNIC(t, Config{Link: LinkUDP, Network: NewNetwork(), NoSharedMemory: noSharedMemory})
	}
	p := connectRaw(t, alone(), alone())
	require.True(t, p.na.UDP())
	p.exchange(t)
	for i := range p.ma.b {
		p.ma.b[i] = byte(i * 31)
	}
	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 64<<10, p.mb.addr, p.mb.key))
	p.ca.wants(prm.CQERequester, 0, 0)
	require.Equal(t, p.ma.b, p.mb.b)
	// Routes that the host does not have.
	require.NoError(t, p.a.modify(p.qa.to(uapi.QPReset)))
	require.NoError(t, p.a.modify(p.qa.toInit()))
	m := p.qa.toRTR(p.qb)
	m.Dest.Dgid = verbs.GIDFrom(netip.MustParseAddr("192.0.2.1"))
	requireErrno(t, etimedout, p.a.modify(m), "off the host from a loopback address")
	m.Dest.SgidIndex, m.Dest.Dgid = 1, p.nb.linkLocal()
	requireErrno(t, etimedout, p.a.modify(m), "link-local address of another network")
}

// A packet that is not for a connected queue pair, or not from its peer, is
// dropped and counted.
func TestStrangePackets(t *testing.T) {
	network := NewNetwork()
	p := newRawPair(t, Config{Network: network, Link: LinkMemory})
	l, err := network.links.Join(netip.MustParseAddr("127.77.1.1"), func(p *link.Packet) { p.Release() })
	require.NoError(t, err)
	defer l.Close()
	send := func(b []byte) {
		pkt := l.Get(len(b))
		copy(pkt.Buf, b)
		pkt.Dst = p.na.Addr()
		l.Send(pkt)
	}
	ack := func(qpn uint32) []byte {
		return []byte{0x11, 0, 0xff, 0xff, 0, byte(qpn >> 16), byte(qpn >> 8), byte(qpn), 0, 0, 0, 100, 0x1f, 0, 0, 1}
	}
	send(ack(p.qa.qpn))
	send(ack(p.qa.qpn + 1))
	require.Eventually(t, func() bool {
		c := p.na.Counters()
		return c.DropWrongPeer == 1 && c.DropUnknownQP == 1
	}, 10*time.Second, time.Millisecond, "%+v", p.na.Counters())
	p.exchange(t)

	// From the peer's address, but malformed: of another transport.
	require.NoError(t, p.nb.Close())
	l2, err := network.links.Join(p.nb.Addr(), func(p *link.Packet) { p.Release() })
	require.NoError(t, err)
	defer l2.Close()
	pkt := l2.Get(16)
	copy(pkt.Buf, ack(p.qa.qpn))
	pkt.Buf[0] = 0x64 // UD
	pkt.Dst = p.na.Addr()
	l2.Send(pkt)
	require.EqualValues(t, 1, p.na.Counters().DropTransport)
	// A reserved operation of this transport ends the queue pair.
	pkt = l2.Get(12)
	copy(pkt.Buf, ack(p.qa.qpn))
	pkt.Buf[0], pkt.Buf[11] = 0x15, byte(p.qa.qpnPSN())
	pkt.Dst = p.na.Addr()
	l2.Send(pkt)
	require.EqualValues(t, uapi.QPErr, p.qa.state())
}

// qpnPSN is the sequence number the queue pair expects next.
func (q *rawQP) qpnPSN() uint32 { return 100 + uint32(q.received) }

// The UDP source port is the kernel's: of the flow label, or of both numbers.
func TestFlowPort(t *testing.T) {
	require.EqualValues(t, 0xfcf4, flowPort(0xabcde, 1, 2))
	require.EqualValues(t, 0xc001, flowPort(1, 1, 2))
	require.Equal(t, flowPort(0, 0x123456, 0x654321), flowPort(0, 0x654321, 0x123456), "the same for both ends")
	require.GreaterOrEqual(t, flowPort(0, 0xffffff, 0xffffff), uint16(0xc000))
}

// The route decides how far packets may go.
func TestHopLimit(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	require.NoError(t, r.modify(q.toInit()))
	m := q.toRTR(q)
	m.Dest.HopLimit, m.Dest.TrafficClass = 7, 106
	require.NoError(t, r.modify(m))
	reply, _, err := r.write(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: q.handle}), 128, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 64, reply[25])
	require.EqualValues(t, 106, reply[26])
	require.EqualValues(t, m.RqPsn, reply[88])
}

func TestInboxOverflow(t *testing.T) {
	n := newTestNIC(t, private())
	n.lock()
	for range maxInbox + 3 {
		n.deliver(link.Get(16))
	}
	n.unlock()
	n.deliver(link.Get(4))
	c := n.Counters()
	require.EqualValues(t, 3, c.DropOverflow)
	require.Eventually(t, func() bool { return n.Counters().DropUnknownQP == maxInbox }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 1, n.Counters().DropMalformed)
}
