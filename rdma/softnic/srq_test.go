package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// sharedPair is a sender at a, and two queue pairs with one queue of receives at b.
type sharedPair struct {
	*rawPair
	srq          *rawSRQ
	first, other *rawQP // at b
	qs           [2]*rawQP
}

func newSharedPair(t testing.TB, cfg Config) *sharedPair {
	p := &sharedPair{rawPair: newRawPair(t, cfg)}
	p.srq = p.b.createSRQ(8)
	for i := range p.qs {
		p.qs[i] = p.a.createQP(16, 0, p.ca, p.ca)
		q := p.srq.queuePair(16, p.cb)
		q.connect(p.qs[i])
		p.qs[i].connect(q)
		p.first, p.other = p.other, q
	}
	return p
}

func (p *sharedPair) send(q *rawQP, n int) {
	q.post(q.entry(prm.OpSend, p.ma, 0, n, 0, 0))
}

// Receives of one queue go to whichever queue pair wants them first, and are
// found by their indices.
func TestSharedReceives(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"version 1": func(*Config) {}, "version 0": func(c *Config) { c.OldCQE = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := private()
			change(&cfg)
			p := newSharedPair(t, cfg)
			for i := range 40 {
				q, to := p.qs[i&1], [2]*rawQP{p.first, p.other}[i&1]
				for j := range p.ma.b[:100] {
					p.ma.b[j] = byte(i + j)
				}
				index := p.srq.receive(p.mb.segment(0, 30), p.mb.segment(1000, 100))
				p.send(q, 100)
				e := p.cb.wants(prm.CQEReceive, 0, 0)
				require.Equal(t, index, e.WQECounter())
				require.Equal(t, to.qpn, e.QPN())
				require.EqualValues(t, 100, e.ByteCount())
				if cfg.OldCQE {
					require.Equal(t, p.srq.srqn, e.SRQN())
				} else {
					require.EqualValues(t, 0x77, e.UserIndex())
				}
				require.Equal(t, p.ma.b[:30], p.mb.b[:30])
				require.Equal(t, p.ma.b[30:100], p.mb.b[1000:1070])
				p.ca.wants(prm.CQERequester, 0, 0)
			}
			require.Equal(t, 1, p.nb.Counters().SRQs)
		})
	}
}

// The list is what its links say, not the order of the entries in memory.
func TestSharedList(t *testing.T) {
	p := newSharedPair(t, private())
	for i, next := range []uint16{5, 0, 0, 6, 0, 3, 1} {
		prm.PutNext(p.srq.entry(uint16(i)), next)
	}
	for _, want := range []uint16{0, 5, 3, 6} {
		require.Equal(t, want, p.srq.receive(p.mb.segment(0, 8)))
		p.send(p.qs[0], 8)
		require.Equal(t, want, p.cb.wants(prm.CQEReceive, 0, 0).WQECounter())
	}
}

// An empty queue asks the peer to wait, as an empty receive queue does.
func TestSharedNotReady(t *testing.T) {
	p := newSharedPair(t, private())
	p.send(p.qs[0], 64)
	require.Eventually(t, func() bool { return p.na.Counters().RNRNaksReceived > 0 }, 10*time.Second, time.Millisecond)
	require.Nil(t, p.cb.next())
	p.srq.receive(p.mb.segment(0, 64))
	p.cb.wants(prm.CQEReceive, 0, 0)
	p.ca.wants(prm.CQERequester, 0, 0)
}

// The limit event comes once, when fewer than the limit are left.
func TestSharedLimit(t *testing.T) {
	p := newSharedPair(t, private())
	for range 4 {
		p.srq.receive(p.mb.segment(0, 8))
	}
	require.NoError(t, p.srq.modify(uapi.SRQAttrLimit, 0, 3))
	require.EqualValues(t, 3, p.srq.limit())
	events := func() uint64 { return p.nb.Counters().AsyncEvents }
	before := events()
	receive := func() {
		p.send(p.qs[0], 8)
		p.cb.wants(prm.CQEReceive, 0, 0)
	}
	receive()
	require.Equal(t, before, events(), "three are left")
	receive()
	require.EqualValues(t, 0x5a, p.b.readAsync(uapi.EventSRQLimitReached))
	require.Zero(t, p.srq.limit())
	receive()
	require.Equal(t, before+1, events(), "once")
	p.srq.receive(p.mb.segment(0, 8))
	p.srq.receive(p.mb.segment(0, 8))
	require.NoError(t, p.srq.modify(uapi.SRQAttrLimit, 0, 3))
	receive()
	require.Equal(t, before+2, events())
	_, err := p.srq.destroy()
	requireErrno(t, syscall.EBUSY, err)
	p.first.destroy()
	p.other.destroy()
	read, err := p.srq.destroy()
	requireErrno(t, 0, err)
	require.EqualValues(t, 1, read, "the second is not read")
}

// A queue pair in error takes no more, and says so; its receives are still the
// others'.
func TestSharedLastReached(t *testing.T) {
	p := newSharedPair(t, private())
	p.srq.receive(p.mb.segment(0, 8))
	require.NoError(t, p.b.modify(p.first.to(uapi.QPErr)))
	require.EqualValues(t, 0xdd, p.b.readAsync(uapi.EventQPLastWQEReached))
	require.Nil(t, p.cb.next())
	p.send(p.qs[1], 8)
	require.Equal(t, p.other.qpn, p.cb.wants(prm.CQEReceive, 0, 0).QPN())
}

// A message that does not fit ends its queue pair, with the receive that it took.
func TestSharedTooLong(t *testing.T) {
	p := newSharedPair(t, private())
	index := p.srq.receive(p.mb.segment(0, 8))
	p.srq.receive(p.mb.segment(0, 8))
	p.send(p.qs[0], 9)
	require.Equal(t, index, p.cb.wants(prm.CQEResponderError, prm.SyndromeLocalLength, detailNone).WQECounter())
	p.b.readAsync(uapi.EventQPLastWQEReached)
	p.ca.wants(prm.CQERequesterError, prm.SyndromeRemoteInvalidRequest, detailRemote)
	p.send(p.qs[1], 8)
	p.cb.wants(prm.CQEReceive, 0, 0)
}

// Entries that cannot be used, and lists that cannot be followed.
func TestBadSharedReceives(t *testing.T) {
	tests := []struct {
		name     string
		post     func(p *sharedPair)
		syndrome prm.Syndrome
		detail   detail
		fatal    bool // for the queue
	}{
		{"unknown key", func(p *sharedPair) { p.srq.receive(prm.Segment{Addr: 1, LKey: 7, Length: 8}) },
			prm.SyndromeLocalProtection, detailKey, false},
		{"read-only region", func(p *sharedPair) { p.srq.receive(p.readOnly.segment(0, 8)) },
			prm.SyndromeLocalProtection, detailRights, false},
		{"empty segment", func(p *sharedPair) {
			e := p.srq.entry(p.srq.receive(p.mb.segment(0, 8)))
			binary.BigEndian.PutUint32(e[16:], 0)
		}, prm.SyndromeLocalQPOperation, detail(prm.EmptySegment), false},
		{"reserved bits of the link", func(p *sharedPair) { p.srq.entry(p.srq.receive())[9] = 1 },
			prm.SyndromeLocalQPOperation, detail(prm.ReservedBits), false},
		{"link", func(p *sharedPair) { p.srq.entry(p.srq.receive())[3] = 8 },
			prm.SyndromeLocalQPOperation, detailLink, true},
		{"overposted", func(p *sharedPair) {
			p.srq.posted = 7
			p.srq.receive()
		}, prm.SyndromeLocalQPOperation, detailOverposted, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newSharedPair(t, private())
			tt.post(p)
			p.send(p.qs[0], 8)
			p.cb.wants(prm.CQEResponderError, tt.syndrome, tt.detail)
			if !tt.fatal {
				p.srq.receive(p.mb.segment(0, 8))
				p.send(p.qs[1], 8)
				p.cb.wants(prm.CQEReceive, 0, 0)
				return
			}
			require.EqualValues(t, 0x5a, p.b.readAsync(uapi.EventSRQErr))
			p.send(p.qs[1], 8)
			p.cb.wants(prm.CQEResponderError, prm.SyndromeLocalQPOperation, detailShared)
		})
	}
}

// The memory of receives is of the shared queue's domain, not of the queue pair's.
func TestSharedDomain(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	srq := r.createSRQ(4)
	m := r.regMR(4096, allAccess)
	r.pd = r.allocPD()
	q := srq.queuePair(16, cq)
	q.connect(q)
	own := r.regMR(4096, allAccess)
	srq.receive(m.segment(0, 8))
	srq.receive(own.segment(0, 8))
	q.post(q.entry(prm.OpSend, own, 0, 8, 0, 0))
	cq.wants(prm.CQEReceive, 0, 0)
	cq.wants(prm.CQERequester, 0, 0)
	q.post(q.entry(prm.OpSend, own, 0, 8, 0, 0))
	cq.wants(prm.CQEResponderError, prm.SyndromeLocalProtection, detailDomain)
}

func TestSharedErrors(t *testing.T) {
	cfg := private()
	cfg.Limits = Limits{SRQs: 1, QPEntries: 64, ReceiveSGE: 8}
	r := newRaw(t, newTestNIC(t, cfg))
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	type request struct {
		core    uapi.CreateSRQ
		udata   prm.CreateSRQRequest
		in, out int
	}
	tests := []struct {
		name   string
		change func(*request)
		want   syscall.Errno
	}{
		{"good", func(q *request) {}, 0},
		{"no receives", func(q *request) { q.core.MaxWR, q.core.MaxSGE = 0, 0 }, 0},
		{"a limit", func(q *request) { q.core.SRQLimit = 1000 }, 0},
		{"user index", func(q *request) { q.udata.UserIndex = 5 }, 0},
		{"all receives", func(q *request) { q.core.MaxWR, q.core.MaxSGE = 63, 7 }, 0},
		{"too many receives", func(q *request) { q.core.MaxWR = 64 }, syscall.EINVAL},
		{"too many segments", func(q *request) { q.core.MaxSGE = 8 }, syscall.EINVAL},
		{"PD", func(q *request) { q.core.PDHandle = 99 }, syscall.ENOENT},
		{"signature", func(q *request) { q.udata.Flags = prm.SRQSignature }, syscall.EINVAL},
		{"reserved 0", func(q *request) { q.udata.Reserved0 = 1 }, syscall.EINVAL},
		{"reserved 1", func(q *request) { q.udata.Reserved1 = 1 }, syscall.EINVAL},
		{"short request", func(q *request) { q.in = 15 }, syscall.EINVAL},
		{"old request", func(q *request) { q.in = 24 }, 0},
		{"no room for the number", func(q *request) { q.out = 0 }, syscall.EFAULT},
		{"misaligned record", func(q *request) { q.udata.RecordAddr += 4 }, syscall.EINVAL},
		{"unmapped record", func(q *request) { q.udata.RecordAddr = 4096 }, syscall.EFAULT},
		{"unmapped buffer", func(q *request) { q.udata.BufAddr = 4096 }, syscall.EFAULT},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := request{core: r.srqCore(16), udata: prm.CreateSRQRequest{BufAddr: buf, RecordAddr: record}, in: 32, out: 8}
			tt.change(&q)
			reply, _, err := r.write(uapi.CmdCreateSRQ, enc(q.core), 16, prm.Bytes(&q.udata)[:q.in], q.out)
			requireErrno(t, tt.want, err)
			if err == nil {
				_, _, err = r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: r.pd}), 0, nil, 0)
				requireErrno(t, syscall.EBUSY, err)
				_, err = (&rawSRQ{r: r, handle: binary.NativeEndian.Uint32(reply)}).destroy()
				requireErrno(t, 0, err)
			}
			require.Zero(t, r.nic.Counters().SRQs)
			require.Zero(t, r.nic.Counters().PinnedBytes)
		})
	}
	s := r.createSRQ(16)
	udata := prm.CreateSRQRequest{BufAddr: buf, RecordAddr: record}
	_, _, err := r.write(uapi.CmdCreateSRQ, enc(r.srqCore(16)), 16, prm.Bytes(&udata), 8)
	requireErrno(t, syscall.ENOMEM, err, "too many queues")
	requireErrno(t, syscall.EINVAL, s.modify(uapi.SRQAttrMaxWR, 31, 0))
	requireErrno(t, syscall.EINVAL, s.modify(uapi.SRQAttrLimit, 0, 16))
	requireErrno(t, 0, s.modify(uapi.SRQAttrLimit, 0, 15))
	requireErrno(t, 0, s.modify(0, 0, 3))
	require.EqualValues(t, 15, s.limit())
	none := &rawSRQ{r: r, handle: 99}
	requireErrno(t, syscall.ENOENT, none.modify(0, 0, 0))
	_, _, err = r.write(uapi.CmdQuerySRQ, enc(uapi.QuerySRQ{SRQHandle: 99}), 16, nil, 0)
	requireErrno(t, syscall.ENOENT, err)
	_, err = none.destroy()
	requireErrno(t, syscall.ENOENT, err)

	cq := r.createCQ(16, false)
	core, u := r.qpCore(16, 0, cq, cq), r.qpUdata(16, 4, buf, record)
	core.IsSRQ, core.SRQHandle = 1, s.handle
	_, _, err = r.write(uapi.CmdCreateQP, enc(core), 32, prm.Bytes(&u), 40)
	requireErrno(t, syscall.EINVAL, err, "receives of its own as well")
}

func TestNativeShared(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	udata := prm.CreateSRQRequest{BufAddr: buf, RecordAddr: record}
	type request struct {
		kind  uint64
		pd    uint64
		event int64
	}
	create := func(q request) (h uint64, maxWR uint32, err error) {
		var reply []byte
		err = r.callThen(uapi.ObjectSRQ, uapi.MethodSRQCreate, func(c *uapi.Command) {
			c.NewObject(uapi.AttrCreateSRQHandle)
			c.Object(uapi.AttrCreateSRQPD, q.pd)
			c.In(uapi.AttrCreateSRQUserHandle, enc(uint64(0x5a)))
			c.In(uapi.AttrCreateSRQMaxWR, enc(uint32(20)))
			c.In(uapi.AttrCreateSRQMaxSGE, enc(uint32(2)))
			c.In(uapi.AttrCreateSRQLimit, enc(uint32(0)))
			c.Const(uapi.AttrCreateSRQType, q.kind)
			reply = c.Out(uapi.AttrCreateSRQRespMaxWR, 4)
			c.Out(uapi.AttrCreateSRQRespMaxSGE, 4)
			c.In(uapi.AttrUHWIn, prm.Bytes(&udata))
			c.Out(uapi.AttrUHWOut, 8)
			if q.event >= 0 {
				c.Object(uapi.AttrCreateSRQEventFD, uint64(q.event))
			}
		}, func(c *uapi.Command) { h, maxWR = c.Data(0), binary.NativeEndian.Uint32(reply) })
		return h, maxWR, err
	}
	good := request{kind: uapi.SRQTypeBasic, pd: uint64(r.pd), event: int64(r.async.fd)}
	for name, tt := range map[string]struct {
		change func(*request)
		want   syscall.Errno
	}{
		"XRC":        {func(q *request) { q.kind = 1 }, syscall.EOPNOTSUPP},
		"no domain":  {func(q *request) { q.pd = 99 }, syscall.ENOENT},
		"event file": {func(q *request) { q.event = 5 }, syscall.EBADF},
	} {
		q := good
		tt.change(&q)
		_, _, err := create(q)
		requireErrno(t, tt.want, err, name)
	}
	good.event = -1
	h, maxWR, err := create(good)
	require.NoError(t, err)
	require.EqualValues(t, 31, maxWR)
	require.Equal(t, 1, n.Counters().SRQs)
	testNativeUser(t, r, h)
	require.NoError(t, r.call(uapi.ObjectSRQ, uapi.MethodSRQDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroySRQHandle, h)
		c.Out(uapi.AttrDestroySRQResp, 4)
	}))
	require.Zero(t, n.Counters().SRQs)
}

// testNativeUser makes and destroys a queue pair with the shared receive queue.
func testNativeUser(t *testing.T, r *raw, srq uint64) {
	cq := r.createCQ(16, false)
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	udata := r.qpUdata(16, 0, buf, record)
	create := func(srq uint64) (caps []byte, err error) {
		err = r.call(uapi.ObjectQP, uapi.MethodQPCreate, func(c *uapi.Command) {
			c.NewObject(uapi.AttrCreateQPHandle)
			c.Object(uapi.AttrCreateQPPD, uint64(r.pd))
			c.Object(uapi.AttrCreateQPSRQ, srq)
			c.Object(uapi.AttrCreateQPSendCQ, uint64(cq.handle))
			c.Object(uapi.AttrCreateQPRecvCQ, uint64(cq.handle))
			c.In(uapi.AttrCreateQPUserHandle, enc(uint64(1)))
			c.In(uapi.AttrCreateQPCap, enc(uapi.QPCap{MaxSendWR: 16, MaxRecvWR: 16}))
			c.Const(uapi.AttrCreateQPType, uapi.QPTypeRC)
			caps = c.Out(uapi.AttrCreateQPRespCap, 20)
			c.Out(uapi.AttrCreateQPRespQPN, 4)
			c.In(uapi.AttrUHWIn, prm.Bytes(&udata))
			c.Out(uapi.AttrUHWOut, 40)
		})
		return caps, err
	}
	_, err := create(99)
	requireErrno(t, syscall.ENOENT, err)
	_, err = create(uint64(r.pd))
	requireErrno(t, syscall.EINVAL, err)
	caps, err := create(srq)
	require.NoError(t, err)
	require.Zero(t, binary.NativeEndian.Uint32(caps[4:]), "it has no receives of its own")
	err = r.call(uapi.ObjectSRQ, uapi.MethodSRQDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroySRQHandle, srq)
		c.Out(uapi.AttrDestroySRQResp, 4)
	})
	requireErrno(t, syscall.EBUSY, err)
	for h := range r.file.objects.all(uapi.ObjectQP) {
		(&rawQP{r: r, handle: h}).destroy()
	}
}
