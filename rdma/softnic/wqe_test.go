package softnic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// Every way in which an entry of the send queue can be wrong ends the queue pair
// with one error completion that says why, and a flush for what follows.
func TestBadSends(t *testing.T) {
	const off = 256
	send := func(p *rawPair) []byte { return p.qa.entry(prm.OpSend, p.ma, 0, 64, 0, 0) }
	write := func(p *rawPair, remote uint64, rkey uint32) []byte {
		return p.qa.entry(prm.OpWrite, p.ma, 0, 64, remote, rkey)
	}
	tests := []struct {
		name     string
		entry    func(p *rawPair) []byte
		syndrome prm.Syndrome
		detail   detail
	}{
		{"unknown opcode", func(p *rawPair) []byte {
			w := send(p)
			w[3] = 0x55
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.UnknownOpcode)},
		{"opcode modifier", func(p *rawPair) []byte {
			w := send(p)
			w[0] = 1
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.UnknownModifier)},
		{"unknown flag", func(p *rawPair) []byte {
			w := send(p)
			w[11] |= 1
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.UnknownFlags)},
		{"reserved bits of DS", func(p *rawPair) []byte {
			w := send(p)
			w[7] |= 0x40
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.ReservedBits)},
		{"signature", func(p *rawPair) []byte {
			w := send(p)
			w[8] = 1
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.ReservedBits)},
		{"no units", func(p *rawPair) []byte {
			w := send(p)
			w[7] = 0
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.BadSize)},
		{"write without remote address", func(p *rawPair) []byte {
			w := make([]byte, prm.Unit)
			prm.PutCtrl(w, new(p.qa.ctrl(prm.OpWrite, 1)))
			return w
		}, prm.SyndromeLocalQPOperation, detail(prm.BadSize)},
		{"empty segment", func(p *rawPair) []byte { return p.qa.entry(prm.OpSend, p.ma, 0, 0, 0, 0) },
			prm.SyndromeLocalQPOperation, detail(prm.EmptySegment)},
		{"atomic of 4 bytes", func(p *rawPair) []byte { return p.qa.entry(prm.OpFetchAdd, p.ma, 0, 4, p.mb.addr, p.mb.key) },
			prm.SyndromeLocalQPOperation, detail(prm.AtomicLength)},
		{"stale index", func(p *rawPair) []byte {
			w := send(p)
			w[2]++
			return w
		}, prm.SyndromeLocalQPOperation, detailIndex},
		{"another queue pair's number", func(p *rawPair) []byte {
			w := send(p)
			w[6] ^= 1
			return w
		}, prm.SyndromeLocalQPOperation, detailQPN},
		{"more segments than the device takes", func(p *rawPair) []byte {
			w := make([]byte, 6*prm.Unit)
			prm.PutCtrl(w, new(p.qa.ctrl(prm.OpSend, 6)))
			for i := 1; i < 6; i++ {
				prm.PutData(w[i*prm.Unit:], p.ma.segment(0, 8))
			}
			return w
		}, prm.SyndromeLocalQPOperation, detailSegments},
		{"longer than a message", func(p *rawPair) []byte {
			w := send(p)
			prm.PutData(w[prm.Unit:], p.ma.segment(0, maxMessage+1))
			return w
		}, prm.SyndromeLocalLength, detailTooLong},
		{"unknown lkey", func(p *rawPair) []byte {
			w := send(p)
			prm.PutData(w[prm.Unit:], prm.Segment{Addr: p.ma.addr, LKey: p.ma.key ^ 1, Length: 8})
			return w
		}, prm.SyndromeLocalProtection, detailKey},
		{"local out of bounds", func(p *rawPair) []byte { return p.qa.entry(prm.OpSend, p.ma, 64<<10-8, 9, 0, 0) },
			prm.SyndromeLocalProtection, detailBounds},
		{"local address below the region", func(p *rawPair) []byte { return p.qa.entry(prm.OpSend, p.ma, -1, 8, 0, 0) },
			prm.SyndromeLocalProtection, detailBounds},
		{"unknown rkey", func(p *rawPair) []byte { return write(p, p.mb.addr, p.mb.key^1) },
			prm.SyndromeRemoteAccess, detailRemote},
		{"remote out of bounds", func(p *rawPair) []byte { return write(p, p.mb.addr+64<<10-63, p.mb.key) },
			prm.SyndromeRemoteAccess, detailRemote},
		{"remote address wraps", func(p *rawPair) []byte { return write(p, ^uint64(0)-8, p.mb.key) },
			prm.SyndromeRemoteAccess, detailRemote},
		{"region not writable by peers", func(p *rawPair) []byte { return write(p, p.readOnly.addr, p.readOnly.key) },
			prm.SyndromeRemoteAccess, detailRemote},
		{"misaligned atomic", func(p *rawPair) []byte {
			return p.qa.entry(prm.OpFetchAdd, p.ma, 0, 8, p.mb.addr+4, p.mb.key)
		}, prm.SyndromeRemoteInvalidRequest, detailRemote},
		{"read into a region of another domain", func(p *rawPair) []byte {
			pd := p.a.pd
			p.a.pd = p.a.allocPD()
			m := p.a.regMR(4096, allAccess)
			p.a.pd = pd
			return p.qa.entry(prm.OpRead, m, 0, 8, p.mb.addr, p.mb.key)
		}, prm.SyndromeLocalProtection, detailDomain},
		{"read into a region that is read only", func(p *rawPair) []byte {
			return p.qa.entry(prm.OpRead, p.a.regMR(4096, 0), 0, 8, p.mb.addr, p.mb.key)
		}, prm.SyndromeLocalProtection, detailRights},
		{"invalidate", func(p *rawPair) []byte {
			p.qb.receive(p.mb.segment(off, 64))
			w := p.qa.entry(prm.OpSendInv, p.ma, 0, 8, 0, 0)
			binary.BigEndian.PutUint32(w[12:], p.mb.key)
			return w
		}, prm.SyndromeRemoteAccess, detailRemote},
		{"send longer than the receive", func(p *rawPair) []byte {
			p.qb.receive(p.mb.segment(off, 63))
			return send(p)
		}, prm.SyndromeRemoteInvalidRequest, detailRemote},
		{"receive with a bad key", func(p *rawPair) []byte {
			p.qb.receive(prm.Segment{Addr: p.mb.addr, LKey: 1, Length: 64})
			return send(p)
		}, prm.SyndromeRemoteOperation, detailRemote},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := private()
			cfg.Limits.SendSGE = 4
			p := newRawPair(t, cfg)
			bad := tt.entry(p)
			p.qa.put(bad)
			// The doorbell is right whatever the entry says.
			p.qa.doorbell(append(bad[:4:4], p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)[4:8]...))
			e := p.ca.wants(prm.CQERequesterError, tt.syndrome, tt.detail)
			require.Equal(t, p.qa.qpn, e.QPN())
			require.Equal(t, uint32(0x77), e.UserIndex())
			require.Zero(t, e.WQECounter())
			require.EqualValues(t, uapi.QPErr, p.qa.state())
			require.EqualValues(t, 1, p.na.Counters().ErrorCompletions)
			next := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
			p.qa.post(next)
			p.ca.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
		})
	}
}

// A record that promises more than the queue holds, or less than an entry takes,
// is found out, and the queue comes to an end.
func TestBadSendRecord(t *testing.T) {
	for name, post := range map[string]func(q *rawQP, w []byte){
		"more than the queue": func(q *rawQP, w []byte) { q.storeRecord(prm.RecordSend, 17) },
		"less than the entry": func(q *rawQP, w []byte) { w[7] = 20 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newRawPair(t, private())
			w := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
			p.qa.put(w)
			post(p.qa, p.qa.buf[16<<testStride:])
			p.qa.doorbell(w)
			p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detailOverposted)
			require.Nil(t, p.ca.next())
			require.EqualValues(t, uapi.QPErr, p.qa.state())
		})
	}
}

// What the responder's side sees of the peer's errors: the completion of the
// receive, and the asynchronous event.
func TestResponderErrors(t *testing.T) {
	tests := []struct {
		name     string
		run      func(p *rawPair) []byte
		syndrome prm.Syndrome // of the receive; 0: none was taken
		detail   detail
		event    uint32
	}{
		{"too long", func(p *rawPair) []byte {
			p.qb.receive(p.mb.segment(0, 4), p.mb.segment(64, 4))
			return p.qa.entry(prm.OpSend, p.ma, 0, 9, 0, 0)
		}, prm.SyndromeLocalLength, detailNone, uapi.EventQPReqErr},
		{"receive without a key", func(p *rawPair) []byte {
			p.qb.receive(prm.Segment{Addr: p.mb.addr, LKey: 7, Length: 64})
			return p.qa.entry(prm.OpSend, p.ma, 0, 9, 0, 0)
		}, prm.SyndromeLocalProtection, detailKey, uapi.EventQPFatal},
		{"receive into read-only memory", func(p *rawPair) []byte {
			p.qb.receive(p.readOnly.segment(0, 64))
			return p.qa.entry(prm.OpSend, p.ma, 0, 9, 0, 0)
		}, prm.SyndromeLocalProtection, detailRights, uapi.EventQPFatal},
		{"malformed receive", func(p *rawPair) []byte {
			p.qb.receive(prm.Segment{Addr: p.mb.addr, LKey: p.mb.key, Length: 0})
			return p.qa.entry(prm.OpSend, p.ma, 0, 9, 0, 0)
		}, prm.SyndromeLocalQPOperation, detail(prm.EmptySegment), uapi.EventQPFatal},
		{"more receives than the queue", func(p *rawPair) []byte {
			p.qb.storeRecord(prm.RecordReceive, 17)
			return p.qa.entry(prm.OpSend, p.ma, 0, 9, 0, 0)
		}, prm.SyndromeLocalQPOperation, detailOverposted, uapi.EventQPFatal},
		{"bad rkey", func(p *rawPair) []byte {
			return p.qa.entry(prm.OpWrite, p.ma, 0, 9, p.mb.addr, p.mb.key+1)
		}, 0, 0, uapi.EventQPAccessErr},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newRawPair(t, private())
			p.qa.post(tt.run(p))
			if tt.syndrome != 0 {
				p.cb.wants(prm.CQEResponderError, tt.syndrome, tt.detail)
			}
			require.EqualValues(t, 0xdd, p.b.readAsync(tt.event))
			require.EqualValues(t, uapi.QPErr, p.qb.state())
		})
	}
}

// The data path as hardware has it: each operation, completions on both sides.
func TestOperations(t *testing.T) {
	p := newRawPair(t, private())
	for i := range p.ma.b {
		p.ma.b[i] = byte(i * 7)
	}
	p.qb.receive(p.mb.segment(0, 1500), p.mb.segment(1600, 5000))
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 10, 3000, 0, 0))
	e := p.cb.wants(prm.CQEReceive, 0, 0)
	require.EqualValues(t, 3000, e.ByteCount())
	require.Equal(t, p.qa.qpn, e.RemoteQPN())
	require.True(t, e.HasGRH())
	require.NotZero(t, e.Timestamp())
	require.Equal(t, p.ma.b[10:1510], p.mb.b[:1500])
	require.Equal(t, p.ma.b[1510:3010], p.mb.b[1600:3100])
	require.Equal(t, make([]byte, 100), p.mb.b[1500:1600])
	e = p.ca.wants(prm.CQERequester, 0, 0)
	require.Equal(t, prm.OpSend, e.SendOpcode())

	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 64<<10, p.mb.addr, p.mb.key))
	require.Equal(t, prm.OpWrite, p.ca.wants(prm.CQERequester, 0, 0).SendOpcode())
	require.Equal(t, p.ma.b, p.mb.b)

	clear(p.ma.b)
	p.qa.post(p.qa.entry(prm.OpRead, p.ma, 0, 5000, p.mb.addr+1, p.mb.key))
	require.EqualValues(t, 5000, p.ca.wants(prm.CQERequester, 0, 0).ByteCount())
	require.Equal(t, p.mb.b[1:5001], p.ma.b[:5000])

	binary.NativeEndian.PutUint64(p.mb.b[8:], 37)
	p.qa.post(p.qa.entry(prm.OpFetchAdd, p.ma, 0, 8, p.mb.addr+8, p.mb.key))
	require.EqualValues(t, 8, p.ca.wants(prm.CQERequester, 0, 0).ByteCount())
	require.EqualValues(t, 37, binary.NativeEndian.Uint64(p.ma.b))
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(p.mb.b[8:]))

	binary.NativeEndian.PutUint64(p.mb.b[8:], 0)
	p.qa.post(p.qa.entry(prm.OpCompareSwap, p.ma, 0, 8, p.mb.addr+8, p.mb.key))
	p.ca.wants(prm.CQERequester, 0, 0)
	require.EqualValues(t, 5, binary.NativeEndian.Uint64(p.mb.b[8:]))

	p.qb.receive()
	w := p.qa.entry(prm.OpWriteImm, p.ma, 0, 16, p.mb.addr, p.mb.key)
	binary.BigEndian.PutUint32(w[12:], 0xabcdef01)
	w[11] |= prm.Solicited
	p.qa.post(w)
	e = p.cb.wants(prm.CQEWriteImm, 0, 0)
	require.EqualValues(t, 0xabcdef01, e.Imm())
	require.EqualValues(t, 16, e.ByteCount())
	require.True(t, e.Solicited())
	p.ca.wants(prm.CQERequester, 0, 0)

	nop := make([]byte, prm.Unit)
	prm.PutCtrl(nop, new(p.qa.ctrl(prm.OpNop, 1)))
	p.qa.post(nop)
	require.Equal(t, prm.OpNop, p.ca.wants(prm.CQERequester, 0, 0).SendOpcode())

	c := p.na.Counters()
	require.Zero(t, c.RNRNaksReceived+c.Retransmits+c.Timeouts+c.BadDoorbells+c.DropICRC, "%+v", c)
	require.EqualValues(t, 7, c.Completions)
}

// Entries wrap around the ring, also inline data; without CQEUpdate only the
// last completes.
func TestInlineWrapsAround(t *testing.T) {
	p := newRawPair(t, private())
	for round := range 50 {
		data := make([]byte, 150) // 4 + 150 in 10 units, 3 blocks of 16 with the control segment
		for i := range data {
			data[i] = byte(i + round)
		}
		units := 1 + prm.InlineUnits(len(data))
		w := make([]byte, units*prm.Unit)
		c := p.qa.ctrl(prm.OpSend, units)
		if round%2 == 0 {
			c.Flags = 0
		}
		prm.PutCtrl(w, &c)
		prm.PutInlineHeader(w[prm.Unit:], len(data))
		copy(w[prm.Unit+prm.InlineHeader:], data)
		p.qb.receive(p.mb.segment(0, 1000))
		p.qa.post(w)
		require.EqualValues(t, round, p.cb.wants(prm.CQEReceive, 0, 0).WQECounter())
		require.Equal(t, data, p.mb.b[:150])
		if round%2 == 1 {
			require.Equal(t, c.Index, p.ca.wants(prm.CQERequester, 0, 0).WQECounter())
		}
		require.Nil(t, p.ca.next())
	}
}

// A send that finds no receive is retried until there is one, which no doorbell
// announces.
func TestReceiverNotReady(t *testing.T) {
	p := newRawPair(t, private())
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
	require.Eventually(t, func() bool { return p.na.Counters().RNRNaksReceived > 2 }, 10*time.Second, time.Millisecond)
	require.Nil(t, p.ca.next())
	p.qb.receive(p.mb.segment(0, 8))
	p.cb.wants(prm.CQEReceive, 0, 0)
	p.ca.wants(prm.CQERequester, 0, 0)
	require.Equal(t, p.na.Counters().RNRNaksReceived, p.nb.Counters().RNRNaksSent)
}

// A queue pair in error flushes what is posted to it, receives too.
func TestFlush(t *testing.T) {
	for _, from := range []uint8{uapi.QPInit, uapi.QPRTR, uapi.QPRTS} {
		t.Run(verbs.QPState(from).String(), func(t *testing.T) {
			n := newTestNIC(t, private())
			r := newRaw(t, n)
			send, recv := r.createCQ(64, false), r.createCQ(64, false)
			q := r.createQP(16, 16, send, recv)
			m := r.regMR(4096, allAccess)
			for i, change := range []uapi.ModifyQP{q.toInit(), q.toRTR(q), q.toRTS()} {
				if uint8(i) < from {
					require.NoError(t, r.modify(change))
				}
			}
			q.receive(m.segment(0, 8))
			q.receive(m.segment(0, 8))
			require.NoError(t, r.modify(q.to(uapi.QPErr)))
			for i := range 2 {
				require.EqualValues(t, i, recv.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed).WQECounter())
			}
			// Posted in error, with no doorbell at all: the NIC looks by itself.
			q.receive(m.segment(0, 8))
			recv.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed)
			// Sends, signaled or not.
			w := q.entry(prm.OpSend, m, 0, 8, 0, 0)
			w[11] = 0
			q.post(w)
			send.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
			// More than the protocol is handed at once.
			for range 10 {
				w := q.entry(prm.OpSend, m, 0, 8, 0, 0)
				q.put(w)
				q.doorbell(w)
			}
			for range 10 {
				send.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
			}
			require.Nil(t, send.next())
			require.Nil(t, recv.next())
			// And it can start over.
			require.NoError(t, r.modify(q.to(uapi.QPReset)))
			q.posted, q.received = 0, 0
			q.storeRecord(prm.RecordSend, 0)
			q.storeRecord(prm.RecordReceive, 0)
			q.connect(q)
			q.receive(m.segment(0, 8))
			q.post(q.entry(prm.OpSend, m, 0, 8, 0, 0))
			recv.wants(prm.CQEReceive, 0, 0)
			send.wants(prm.CQERequester, 0, 0)
		})
	}
}

// A region that goes away under way gives errors, not crashes.
func TestDeregisteredInUse(t *testing.T) {
	p := newRawPair(t, private())
	_, _, err := p.b.write(uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: p.mb.handle}), 0, nil, 0)
	require.NoError(t, err)
	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.mb.addr, p.mb.key))
	p.ca.wants(prm.CQERequesterError, prm.SyndromeRemoteAccess, detailRemote)
	require.EqualValues(t, 0xdd, p.b.readAsync(uapi.EventQPAccessErr))
	again := p.b.regMR(4096, allAccess)
	require.NotEqual(t, p.mb.key>>8, again.key>>8, "key index is taken again at once")
}

// Without reads and atomics outstanding there are none.
func TestNoReads(t *testing.T) {
	for _, op := range []prm.Opcode{prm.OpRead, prm.OpFetchAdd} {
		for _, initiator := range []bool{false, true} {
			p := newRawPair(t, private())
			require.NoError(t, p.a.modify(p.qa.to(uapi.QPReset)))
			require.NoError(t, p.b.modify(p.qb.to(uapi.QPReset)))
			rtr, rts := p.qb.toRTR(p.qa), p.qa.toRTS()
			if initiator {
				rts.MaxRdAtomic = 0
			} else {
				rtr.MaxDestRdAtomic = 0
			}
			for _, m := range []uapi.ModifyQP{p.qa.toInit(), p.qa.toRTR(p.qb), rts} {
				require.NoError(t, p.a.modify(m))
			}
			for _, m := range []uapi.ModifyQP{p.qb.toInit(), rtr, p.qb.toRTS()} {
				require.NoError(t, p.b.modify(m))
			}
			p.qa.post(p.qa.entry(op, p.ma, 0, 8, p.mb.addr, p.mb.key))
			if initiator {
				p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detailReads)
			} else {
				p.ca.wants(prm.CQERequesterError, prm.SyndromeRemoteInvalidRequest, detailRemote)
			}
		}
	}
}

// A queue pair that may not be read from by its peer says so.
func TestQueuePairAccess(t *testing.T) {
	p := newRawPair(t, private())
	require.NoError(t, p.b.modify(uapi.ModifyQP{QPHandle: p.qb.handle, QPState: uapi.QPRTS,
		AttrMask: uapi.QPAttrState | uapi.QPAttrAccessFlags, QPAccessFlags: uapi.AccessRemoteWrite}))
	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.mb.addr, p.mb.key))
	p.ca.wants(prm.CQERequester, 0, 0)
	p.qa.post(p.qa.entry(prm.OpRead, p.ma, 0, 8, p.mb.addr, p.mb.key))
	p.ca.wants(prm.CQERequesterError, prm.SyndromeRemoteInvalidRequest, detailRemote)
}
