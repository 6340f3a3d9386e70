package softnic

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// IPv4 and IPv6 headers lie where the specification wants them, and are right.
func TestDatagrams(t *testing.T) {
	for name, addr := range map[string][2]string{"IPv4": {"127.7.0.1", "127.7.0.2"}, "IPv6": {"fd07::1", "fd07::2"}} {
		t.Run(name, func(t *testing.T) {
			cfg := private()
			cfg.Addr = netip.MustParseAddr(addr[0])
			p := &datagramPair{na: newTestNIC(t, cfg)}
			cfg.Addr = netip.MustParseAddr(addr[1])
			p.nb = newTestNIC(t, cfg)
			p.a, p.b = newRaw(t, p.na), newRaw(t, p.nb)
			p.ca, p.cb = p.a.createCQ(64, true), p.b.createCQ(64, true)
			p.qa, p.qb = p.a.createUD(16, 16, p.ca), p.b.createUD(16, 16, p.cb)
			p.ma, p.mb = p.a.regMR(64<<10, allAccess), p.b.regMR(64<<10, allAccess)
			p.to = p.a.addressOf(t, ahAttr(p.nb, 3), p.qb)
			copy(p.ma.b, "hello datagram")
			p.qb.receive(p.mb.segment(0, 30), p.mb.segment(30, 70))
			w := p.qa.datagram(prm.OpSendImm, p.to, p.ma, 0, 14)
			binary.BigEndian.PutUint32(w[12:], 0x1234)
			p.qa.post(w)
			p.ca.wants(prm.CQERequester, 0, 0)
			e := p.cb.wants(prm.CQEReceiveImm, 0, 0)
			require.EqualValues(t, 54, e.ByteCount())
			require.EqualValues(t, 0x1234, e.Imm())
			require.Equal(t, p.qa.qpn, e.RemoteQPN())
			require.True(t, e.HasGRH())
			require.Equal(t, prm.CQEPlain, e.Format())
			require.Equal(t, "hello datagram", string(p.mb.b[40:54]))
			h := p.mb.b[:40]
			const size = 12 + 8 + 4 + 16 + 4 // BTH, DETH, immediate, payload and pad, ICRC
			if name == "IPv4" {
				require.EqualValues(t, prm.HeaderIPv4, e.Priority())
				require.Equal(t, make([]byte, 20), h[:20])
				h = h[20:]
				require.Equal(t, []byte{0x45, 0x28, 0, 20 + 8 + size, 0, 0, 0x40, 0, 64, 17}, h[:10])
				sum := uint32(0)
				for at := 0; at < len(h); at += 2 {
					sum += uint32(binary.BigEndian.Uint16(h[at:]))
				}
				require.EqualValues(t, 0xffff, sum>>16+sum&0xffff, "a header with its checksum adds up")
				require.Equal(t, []byte{127, 7, 0, 1, 127, 7, 0, 2}, h[12:])
				return
			}
			require.EqualValues(t, prm.HeaderIPv6, e.Priority())
			require.Equal(t, []byte{0x62, 0x80, 0, 0, 0, 8 + size, 17, 64}, h[:8])
			src, dst := p.na.Addr().As16(), p.nb.Addr().As16()
			require.Equal(t, src[:], h[8:24])
			require.Equal(t, dst[:], h[24:])
		})
	}
}

// On InfiniBand the GRH is there if the sender wants one.
func TestDatagramsInfiniBand(t *testing.T) {
	cfg := private()
	cfg.LinkLayer = verbs.LinkInfiniBand
	p := newDatagramPair(t, cfg)
	copy(p.ma.b, "hello datagram")
	for i := range p.mb.b[:40] {
		p.mb.b[i] = 0xee
	}
	p.qb.receive(p.mb.segment(0, 100))
	p.send(p.to, 14)
	e := p.cb.wants(prm.CQEReceive, 0, 0)
	require.False(t, e.HasGRH())
	require.Equal(t, p.na.LID(), e.SourceLID())
	require.Equal(t, p.qa.qpn, e.RemoteQPN())
	require.EqualValues(t, 54, e.ByteCount())
	require.EqualValues(t, 0xee, p.mb.b[39])
	require.Equal(t, "hello datagram", string(p.mb.b[40:54]))

	a := ahAttr(p.nb, 0)
	a.IsGlobal, a.Grh.Dgid, a.Grh.TrafficClass = 1, p.nb.GID(), 7
	to := p.a.addressOf(t, a, p.qb)
	p.qb.receive(p.mb.segment(0, 100))
	p.send(to, 14)
	require.True(t, p.cb.wants(prm.CQEReceive, 0, 0).HasGRH())
	h := p.mb.b[:40]
	require.Equal(t, []byte{0x60, 0x70, 0, 0, 0, 12 + 8 + 16 + 4, 27, 64}, h[:8])
	src, dst := p.na.GID(), p.nb.GID()
	require.Equal(t, src[:], h[8:24])
	require.Equal(t, dst[:], h[24:])

	to.SourceIndex = 1
	p.send(to, 14)
	to.GRH, to.LID = false, 0
	p.send(to, 14)
	require.EqualValues(t, 2, p.na.Counters().DropUnreachable)
}

// What is not wanted is dropped, and takes no receive; the sender cannot tell.
func TestDatagramsDropped(t *testing.T) {
	p := newDatagramPair(t, private())
	p.send(p.to, 8)
	require.EqualValues(t, 1, p.nb.Counters().RNRNaksSent, "no receive")
	p.qb.receive(p.mb.segment(0, 100))
	wrong := func(change func(a *prm.Address)) {
		a := p.to
		change(&a)
		p.send(a, 8)
		require.Nil(t, p.cb.next())
	}
	wrong(func(a *prm.Address) { a.QKey++ })
	wrong(func(a *prm.Address) { a.QPN = (a.QPN + 1) & prm.MaxNumber })
	wrong(func(a *prm.Address) { a.MAC[5]++ })
	wrong(func(a *prm.Address) { a.GID[15]++ })
	wrong(func(a *prm.Address) { a.SourceIndex = 2 })
	wrong(func(a *prm.Address) { a.SourceIndex = 1 })
	wrong(func(a *prm.Address) { a.SourceIndex = 100 })
	rc := p.b.createQP(16, 16, p.cb, p.cb)
	rc.connect(rc)
	wrong(func(a *prm.Address) { a.QPN = rc.qpn })
	require.EqualValues(t, uapi.QPRTS, rc.state())
	p.send(p.to, 8)
	p.cb.wants(prm.CQEReceive, 0, 0)
	require.NotZero(t, p.na.Counters().DropUnreachable)
}

// A key with the controlled bit stands for the sender's own.
func TestControlledKey(t *testing.T) {
	p := newDatagramPair(t, private())
	p.qb.receive(p.mb.segment(0, 100))
	p.to.QKey = prm.ControlledQKey | 7
	p.send(p.to, 8)
	p.cb.wants(prm.CQEReceive, 0, 0)
	m := p.qb.to(uapi.QPRTS)
	m.AttrMask |= uapi.QPAttrQkey
	m.Qkey = 9
	require.NoError(t, p.b.modify(m))
	p.qb.receive(p.mb.segment(0, 100))
	p.send(p.to, 8)
	require.Nil(t, p.cb.next())
	p.to.QKey = 9
	p.send(p.to, 8)
	p.cb.wants(prm.CQEReceive, 0, 0)
}

// Datagrams use a shared receive queue as messages do.
func TestSharedDatagrams(t *testing.T) {
	p := newDatagramPair(t, private())
	s := p.b.createSRQ(8)
	q := p.b.createQPAs(16, 0, p.cb, p.cb, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.IsSRQ, core.SRQHandle, core.QPType = 1, s.handle, uapi.QPTypeUD
	})
	for _, m := range q.toDatagrams() {
		require.NoError(t, p.b.modify(m))
	}
	index := s.receive(p.mb.segment(0, 100))
	p.to.QPN = q.qpn
	p.send(p.to, 8)
	require.Equal(t, index, p.cb.wants(prm.CQEReceive, 0, 0).WQECounter())
	require.NoError(t, p.b.modify(q.to(uapi.QPErr)))
	p.b.readAsync(uapi.EventQPLastWQEReached)
}

func TestBadDatagrams(t *testing.T) {
	tests := []struct {
		name     string
		entry    func(p *datagramPair) []byte
		syndrome prm.Syndrome
		detail   detail
	}{
		{"write", func(p *datagramPair) []byte { return p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.mb.addr, p.mb.key) },
			prm.SyndromeLocalQPOperation, detail(prm.UnknownOpcode)},
		{"no address", func(p *datagramPair) []byte { return p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0) },
			prm.SyndromeLocalQPOperation, detail(prm.BadSize)},
		{"short address", func(p *datagramPair) []byte {
			w := p.qa.datagram(prm.OpSend, p.to, p.ma, 0, 8)
			w[24] = 0
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.ShortAddress)},
		{"reserved bits", func(p *datagramPair) []byte {
			w := p.qa.datagram(prm.OpSend, p.to, p.ma, 0, 8)
			w[35] = 1
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.ReservedBits)},
		{"too long", func(p *datagramPair) []byte { return p.qa.datagram(prm.OpSend, p.to, p.ma, 0, 4097) },
			prm.SyndromeLocalLength, detailTooLong},
		{"key", func(p *datagramPair) []byte {
			return p.qa.datagram(prm.OpSend, p.to, rawMR{addr: p.ma.addr, key: 1}, 0, 8)
		},
			prm.SyndromeLocalProtection, detailKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newDatagramPair(t, private())
			p.qa.post(tt.entry(p))
			p.ca.wants(prm.CQERequesterError, tt.syndrome, tt.detail)
			p.qa.nop(0)
			p.ca.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
			require.EqualValues(t, uapi.QPErr, p.qa.state())
		})
	}
}

// A receive without room for the header and the message ends the queue pair.
func TestBadDatagramReceives(t *testing.T) {
	for name, tt := range map[string]struct {
		receive  func(p *datagramPair) prm.Segment
		syndrome prm.Syndrome
		detail   detail
	}{
		"too short":       {func(p *datagramPair) prm.Segment { return p.mb.segment(0, 47) }, prm.SyndromeLocalLength, detailNone},
		"not even header": {func(p *datagramPair) prm.Segment { return p.mb.segment(0, 39) }, prm.SyndromeLocalLength, detailNone},
		"key":             {func(p *datagramPair) prm.Segment { return prm.Segment{Addr: 1, LKey: 1, Length: 100} }, prm.SyndromeLocalProtection, detailKey},
		"entry":           {func(p *datagramPair) prm.Segment { return prm.Segment{LKey: 5} }, prm.SyndromeLocalQPOperation, detail(prm.EmptySegment)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newDatagramPair(t, private())
			p.qb.receive(tt.receive(p))
			p.qb.receive(p.mb.segment(0, 100))
			p.send(p.to, 8)
			p.cb.wants(prm.CQEResponderError, tt.syndrome, tt.detail)
			p.cb.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed)
			require.EqualValues(t, 0xdd, p.b.readAsync(uapi.EventQPFatal))
		})
	}
}

// The largest datagram is a packet of the port's MTU.
func TestLargestDatagram(t *testing.T) {
	cfg := private()
	cfg.MTU = verbs.MTU1024
	p := newDatagramPair(t, cfg)
	for i := range p.ma.b {
		p.ma.b[i] = byte(i)
	}
	p.qb.receive(p.mb.segment(0, 2000))
	p.send(p.to, 1024)
	require.EqualValues(t, 1064, p.cb.wants(prm.CQEReceive, 0, 0).ByteCount())
	require.Equal(t, p.ma.b[:1024], p.mb.b[40:1064])
	p.qb.receive(p.mb.segment(0, 2000))
	p.send(p.to, 0)
	require.EqualValues(t, 40, p.cb.wants(prm.CQEReceive, 0, 0).ByteCount())
	p.qa.post(p.qa.datagram(prm.OpSend, p.to, p.ma, 0, 1025))
	p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalLength, detailTooLong)
}

// The state machine of datagram queue pairs: every pair of states, and every bit of the mask.
func TestDatagramTransitions(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	q := r.createUD(16, 16, cq)
	testTransitions(t, r, q, uapi.QPTypeUD, q.toDatagrams())
}

// testTransitions tries every change of state with every mask but for one bit.
func testTransitions(t *testing.T, r *raw, q *rawQP, kind uint8, path []uapi.ModifyQP) {
	reach := func(state uint8) {
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
		for i, m := range path {
			if state == uapi.QPErr && i < 1 || state <= uapi.QPRTS && uint8(i) < state {
				require.NoError(t, r.modify(m))
			}
		}
		if state == uapi.QPErr {
			require.NoError(t, r.modify(q.to(uapi.QPErr)))
		}
		require.Equal(t, state, q.state())
	}
	all := path[0]
	all.Dest, all.PathMTU, all.DestQPNum = path[1].Dest, path[1].PathMTU, path[1].DestQPNum
	for _, from := range []uint8{uapi.QPReset, uapi.QPInit, uapi.QPRTR, uapi.QPRTS, uapi.QPErr} {
		for to := uint8(0); to <= 7; to++ {
			tr, ok := transitionFor(kind, from, to)
			m := all
			m.QPState, m.AttrMask = to, tr.required|uapi.QPAttrState
			reach(from)
			if !ok {
				requireErrno(t, syscall.EINVAL, r.modify(m), "%d to %d", from, to)
				continue
			}
			for bit := range 21 {
				wrong := m
				wrong.AttrMask ^= 1 << bit
				if bit == 0 || wrong.AttrMask&^m.AttrMask&tr.optional != 0 {
					continue
				}
				requireErrno(t, syscall.EINVAL, r.modify(wrong), "%d to %d with mask %#x", from, to, wrong.AttrMask)
			}
			requireErrno(t, 0, r.modify(m), "%d to %d", from, to)
			require.Equal(t, to, q.state())
		}
	}
}

// Not to hear one's own multicasts is easily granted.
func TestDatagramFlags(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	udata := r.qpUdata(16, 16, buf, record)
	create := func(kind uint8, flags uint32) error {
		_, _, err := r.write(uapi.CmdExCreateQP, enc(uapi.ExCreateQP{PDHandle: r.pd, SendCQHandle: cq.handle,
			RecvCQHandle: cq.handle, MaxSendWR: 16, MaxRecvWR: 16, QPType: kind, CreateFlags: flags}), 40, prm.Bytes(&udata), 40)
		return err
	}
	requireErrno(t, 0, create(uapi.QPTypeUD, noMulticastLoopback))
	requireErrno(t, syscall.EINVAL, create(uapi.QPTypeUD, 1))
	requireErrno(t, syscall.EINVAL, create(uapi.QPTypeRC, noMulticastLoopback))
}

func TestAddressHandles(t *testing.T) {
	cfg := private()
	cfg.Limits.AHs = 1
	n := newTestNIC(t, cfg)
	r := newRaw(t, n)
	good := ahAttr(n, 3)
	for name, tt := range map[string]struct {
		change func(*uapi.AHAttr)
		want   syscall.Errno
	}{
		"port":           {func(a *uapi.AHAttr) { a.PortNum = 2 }, syscall.EINVAL},
		"not global":     {func(a *uapi.AHAttr) { a.IsGlobal = 0 }, syscall.EINVAL},
		"service level":  {func(a *uapi.AHAttr) { a.Sl = 16 }, syscall.EINVAL},
		"beyond table":   {func(a *uapi.AHAttr) { a.Grh.SgidIndex = 8 }, syscall.EINVAL},
		"empty slot":     {func(a *uapi.AHAttr) { a.Grh.SgidIndex = 7 }, syscall.ENODATA},
		"RoCE v1":        {func(a *uapi.AHAttr) { a.Grh.SgidIndex = 2 }, syscall.EOPNOTSUPP},
		"multicast":      {func(a *uapi.AHAttr) { a.Grh.Dgid[0] = 0xff }, syscall.EINVAL},
		"nobody":         {func(a *uapi.AHAttr) { a.Grh.Dgid[14] ^= 1 }, syscall.ETIMEDOUT},
		"another family": {func(a *uapi.AHAttr) { a.Grh.Dgid[0] = 0x20 }, syscall.EINVAL},
	} {
		a := good
		tt.change(&a)
		_, _, err := r.createAH(a)
		requireErrno(t, tt.want, err, name)
	}
	create := func(a uapi.CreateAH, room int) error {
		_, _, err := r.write(uapi.CmdCreateAH, enc(a), 4, nil, room)
		return err
	}
	requireErrno(t, syscall.ENOENT, create(uapi.CreateAH{PDHandle: 99, Attr: good}, 16), "no domain")
	requireErrno(t, syscall.EINVAL, create(uapi.CreateAH{PDHandle: r.pd, Attr: good}, 9), "no room for the MAC")
	h, mac, err := r.createAH(good)
	require.NoError(t, err)
	require.Equal(t, macOf(n.Addr()), mac)
	require.NotZero(t, mac)
	requireErrno(t, syscall.ENOMEM, create(uapi.CreateAH{PDHandle: r.pd, Attr: good}, 16))
	_, _, err = r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: r.pd}), 0, nil, 0)
	requireErrno(t, syscall.EBUSY, err)
	destroy := func(h uint32) error {
		_, _, err := r.write(uapi.CmdDestroyAH, enc(uapi.DestroyAH{AHHandle: h}), 0, nil, 0)
		return err
	}
	requireErrno(t, 0, destroy(h))
	requireErrno(t, syscall.ENOENT, destroy(h))
	requireErrno(t, syscall.EINVAL, destroy(r.pd))
	h, _, err = r.createAH(good)
	require.NoError(t, err)
	require.NoError(t, r.call(uapi.ObjectAH, uapi.MethodAHDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroyAHHandle, uint64(h))
	}))
	require.Zero(t, n.Counters().AHs)

	ib := private()
	ib.LinkLayer = verbs.LinkInfiniBand
	n = newTestNIC(t, ib)
	r = newRaw(t, n)
	_, mac, err = r.createAH(ahAttr(n, 0))
	require.NoError(t, err)
	require.Zero(t, mac)
	_, _, err = r.createAH(uapi.AHAttr{PortNum: 1})
	requireErrno(t, syscall.EINVAL, err, "no LID")
}
