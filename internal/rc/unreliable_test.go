package rc

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// newUnreliable makes an unreliable connection with a scripted peer.
func newUnreliable(t *testing.T, change ...func(*Params, *Receiving, *Sending)) *script {
	unreliable := func(p *Params, in *Receiving, out *Sending) {
		p.Unreliable = true
		in.Reads, out.Reads = 0, 0
	}
	s := newScript(t, append(change, unreliable)...)
	s.host.again = true
	return s
}

// uc lets a request of the unreliable connection arrive.
func (s *script) uc(op roce.Opcode, psn uint32, data []byte) {
	s.Helper()
	s.ucWith(roce.Header{Opcode: op, PSN: psn, Length: uint32(len(data))}, data)
}

func (s *script) ucWith(h roce.Header, data []byte) {
	s.Helper()
	h.Opcode = roce.UnreliableConnection.Opcode(h.Opcode)
	s.request(h, data)
}

// Packets ask for nothing, and a work is complete when its last is on its way.
func TestUnreliableSend(t *testing.T) {
	s := newUnreliable(t)
	s.post(Work{Slot: 1, Op: OpSend, Length: 600, Solicited: true})
	s.post(Work{Slot: 2, Op: OpWriteImm, Length: 300, Remote: testVA, RKey: testKey, Imm: 9})
	s.post(Work{Slot: 3, Op: OpNop})
	s.post(Work{Slot: 4, Op: OpWrite, Length: 1, Remote: testVA, RKey: testKey})
	s.post(Work{Slot: 5, Op: OpSendImm, Imm: 3})
	require.Equal(t, "UC SEND First 100 [256]", s.next())
	require.Equal(t, "UC SEND Middle 101 [256]", s.next())
	s.wantDone()
	require.Equal(t, "UC SEND Last 102 [88] SE", s.next())
	s.wantDone(done{1, OK, 600})
	s.wantDeadline(0)
	s.want("UC RDMA WRITE First 103 [256] va=0x10000 key=0x77 len=300",
		"UC RDMA WRITE Last with Immediate 104 [44] imm=9",
		"UC RDMA WRITE Only 105 [1] va=0x10000 key=0x77 len=1",
		"UC SEND Only with Immediate 106 [0] imm=3")
	s.wantDone(done{2, OK, 300}, done{3, OK, 0}, done{4, OK, 1}, done{5, OK, 0})
	s.wantDeadline(0)
}

// No window holds a long message up.
func TestUnreliableWindow(t *testing.T) {
	s := newUnreliable(t, func(p *Params, _ *Receiving, _ *Sending) { p.Window = 2 })
	s.post(Work{Op: OpWrite, Length: 20 * testMTU, Remote: testVA, RKey: testKey})
	for range 20 {
		require.NotEmpty(t, s.next())
	}
	s.wantDone(done{0, OK, 20 * testMTU})
}

// What the transport does not have, and what cannot be read, ends the queue pair.
func TestUnreliableSendErrors(t *testing.T) {
	for _, op := range []Op{OpRead, OpCompareSwap, OpFetchAdd, OpSendInvalidate} {
		s := newUnreliable(t)
		s.q.request.attr.Reads = 1 // it is not for want of this
		s.post(Work{Slot: 1, Op: op, Length: 8, Remote: testVA, RKey: testKey})
		s.post(Work{Slot: 2, Op: OpSend})
		s.wantSilence()
		s.wantDone(done{1, LocalQPOperation, 0}, done{2, Flushed, 0})
	}
	s := newUnreliable(t)
	s.host.gather = func(off uint32) Syndrome {
		if off > 0 {
			return LocalProtection
		}
		return OK
	}
	s.post(Work{Slot: 1, Op: OpSend, Length: 300})
	s.want("UC SEND First 100 [256]")
	s.wantDone(done{1, LocalProtection, 0})
	s.wantEvents(FlushReceives)
}

func TestUnreliableArrives(t *testing.T) {
	s := newUnreliable(t)
	mem := s.host.regions[testKey].mem
	clear(mem)
	s.host.post(10)
	s.host.post(1000)
	s.host.post(0)
	s.uc(roce.SendOnly, 500, []byte("hello"))
	s.uc(roce.SendFirst, 501, pattern(256))
	s.uc(roce.SendMiddle, 502, pattern(256))
	s.ucWith(roce.Header{Opcode: roce.SendLastImmediate, PSN: 503, Imm: 7, Solicited: true}, []byte("end"))
	s.ucWith(roce.Header{Opcode: roce.WriteFirst, PSN: 504, Length: 300}, pattern(256))
	s.ucWith(roce.Header{Opcode: roce.WriteLastImmediate, PSN: 505, Imm: 8, AckRequested: true}, pattern(44))
	s.wantSilence()
	require.Equal(t, "hello", s.host.data[0])
	require.Equal(t, string(pattern(256))+string(pattern(256))+"end", s.host.data[1])
	s.wantArrivals(Arrival{Op: OpSend, Bytes: 5}, Arrival{Op: OpSendImm, Bytes: 515, Imm: 7, HasImm: true, Solicited: true},
		Arrival{Op: OpWriteImm, Bytes: 300, Imm: 8, HasImm: true})
	require.Equal(t, pattern(256), mem[:256])
}

// A message of which a packet is missing never arrives. The next does, into the
// receive that the first had taken.
func TestUnreliableLoss(t *testing.T) {
	first := func(s *script, psn uint32) { s.uc(roce.SendFirst, psn, pattern(256)) }
	for name, lose := range map[string]func(s *script){
		"middle": func(s *script) { first(s, 500); s.uc(roce.SendLast, 502, []byte("end")) },
		"last":   func(s *script) { first(s, 500); s.uc(roce.SendMiddle, 501, pattern(256)) },
		"first":  func(s *script) { s.uc(roce.SendMiddle, 501, pattern(256)); s.uc(roce.SendLast, 502, []byte("end")) },
		"and more come": func(s *script) {
			first(s, 500)
			s.uc(roce.SendMiddle, 502, pattern(256))
			s.uc(roce.SendLast, 503, []byte("end"))
		},
		"another kind": func(s *script) {
			first(s, 500)
			s.uc(roce.WriteMiddle, 501, pattern(256))
			s.uc(roce.SendLast, 502, []byte("end"))
		},
		"payload": func(s *script) {
			first(s, 500)
			s.uc(roce.SendMiddle, 501, pattern(252))
			s.uc(roce.SendLast, 502, []byte("end"))
		},
		"too long": func(s *script) {
			s.uc(roce.SendOnly, 500, pattern(256))
			first(s, 501)
			s.uc(roce.SendLast, 502, pattern(250))
		},
		"write without right": func(s *script) {
			s.ucWith(roce.Header{Opcode: roce.WriteOnly, PSN: 500, RKey: 1, VA: 1, Length: 4}, pattern(4))
		},
		"write too short": func(s *script) {
			first(s, 499)
			s.ucWith(roce.Header{Opcode: roce.WriteOnlyImmediate, PSN: 500, Length: 5}, pattern(4))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnreliable(t)
			s.host.post(300)
			if name == "too long" {
				s.host.receives[0] = make([]byte, 200)
			}
			lose(s)
			s.wantArrivals()
			s.uc(roce.SendOnly, 510, []byte("hello"))
			require.Equal(t, []string{"hello"}, s.host.data)
			s.wantArrivals(Arrival{Op: OpSend, Bytes: 5})
			require.Empty(t, s.host.receives)
			require.False(t, s.host.taken)
			s.wantSilence()
			s.wantEvents()
		})
	}
}

// Without a receive the message is lost, all of it.
func TestUnreliableNotReady(t *testing.T) {
	s := newUnreliable(t)
	s.uc(roce.SendFirst, 500, pattern(256))
	s.host.post(1000)
	s.uc(roce.SendLast, 501, []byte("end"))
	s.wantArrivals()
	require.EqualValues(t, 1, s.q.Counters().OutOfBuffer)
	s.uc(roce.SendOnly, 502, []byte("next"))
	s.wantArrivals(Arrival{Op: OpSend, Bytes: 4})
	s.wantSilence()
}

// Queue pairs that do not let the peer write drop its writes, and stay.
func TestUnreliableAccess(t *testing.T) {
	s := newUnreliable(t, func(_ *Params, in *Receiving, _ *Sending) { in.Access = 0 })
	mem := append([]byte(nil), s.host.regions[testKey].mem...)
	s.uc(roce.WriteOnly, 500, []byte("data"))
	s.ucWith(roce.Header{Opcode: roce.WriteFirst, PSN: 501, Length: 300}, pattern(256))
	s.uc(roce.WriteLast, 502, pattern(44))
	require.Equal(t, mem, s.host.regions[testKey].mem)
	require.Equal(t, map[Fate]uint64{DropRefused: 2, DropLost: 1}, dropped(s.q.Counters()))
	require.Equal(t, ReadyToSend, s.q.State())
	s.q.SetAccess(RemoteWrite)
	s.uc(roce.WriteOnly, 503, []byte("data"))
	require.Equal(t, "data", string(s.host.regions[testKey].mem[:4]))
}

// Malformed packets break the open message.
func TestUnreliableMalformed(t *testing.T) {
	s := newUnreliable(t)
	s.host.post(1000)
	s.uc(roce.SendFirst, 500, pattern(256))
	b := (&roce.Header{Opcode: roce.UnreliableConnection.Opcode(roce.SendMiddle), PSN: 501}).Append(nil, pattern(256))
	s.q.Refuse(roce.BTH(b[:roce.BTHSize]))
	s.uc(roce.SendLast, 502, []byte("end"))
	s.wantArrivals()
	s.wantSilence()
	s.uc(roce.SendOnly, 503, []byte("next"))
	s.wantArrivals(Arrival{Op: OpSend, Bytes: 4})
}

// A receive that cannot be written ends the queue pair, and one that waits for
// another message is flushed with the rest.
func TestUnreliableFatal(t *testing.T) {
	s := newUnreliable(t)
	s.host.post(1000)
	s.host.put = func(uint32) Syndrome { return LocalProtection }
	s.uc(roce.SendOnly, 500, []byte("hello"))
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalProtection})
	s.wantEvents(Fatal, FlushReceives)
	s.wantSilence()

	for name, lose := range map[string]bool{"open": false, "spare": true} {
		s := newUnreliable(t)
		s.host.post(1000)
		s.uc(roce.SendFirst, 500, pattern(256))
		if lose {
			s.uc(roce.SendLast, 502, []byte("end"))
		}
		s.q.Fail()
		require.Equal(t, []Arrival{{Op: OpSend, Syndrome: Flushed}}, s.host.arrivals, name)
		require.False(t, s.host.taken)
	}
}

// The first packet establishes the connection; requests of a reliable one are not
// looked at, by either.
func TestUnreliableEstablished(t *testing.T) {
	h := newTestHost(t)
	q := New(h, Params{Unreliable: true})
	require.NoError(t, q.StartReceive(Receiving{MTU: 256, PSN: recvPSN}))
	b := (&roce.Header{Opcode: roce.UnreliableConnection.Opcode(roce.SendOnly), PSN: recvPSN}).Append(nil, nil)
	p, err := roce.ParseAs(roce.UnreliableConnection, b)
	require.NoError(t, err)
	h.post(0)
	q.Receive(time.Time{}, &p)
	require.Equal(t, []EventKind{Established}, h.events)
	require.Len(t, h.arrivals, 1)
	_, err = roce.Parse(b)
	require.Equal(t, roce.ReasonTransport, err)
}

// Over a wire that loses, doubles and reorders, what arrives is some of the
// messages, each whole; over one that does not, all.
func TestUnreliablePair(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		loss := float64(seed%4) * 0.05
		a, b := newUnreliable(t), newUnreliable(t)
		a.q.peer = b.q.peer
		b.q.respond.expected = unfold(sendPSN)
		sent := map[string]bool{}
		var wire [][]byte
		for i := range 200 {
			w := Work{Slot: uint32(i), Op: OpSend, Length: 1 + random.Uint32N(1500)}
			data := make([]byte, w.Length)
			for j := range data {
				data[j] = byte(i + j)
			}
			sent[string(data)] = true
			a.host.local[w.Slot] = data
			b.host.post(1600)
			a.q.Post(&w)
			for n := a.q.Transmit(a.now, a.buf[:]); n > 0; n = a.q.Transmit(a.now, a.buf[:]) {
				wire = append(wire, append([]byte(nil), a.buf[:n]...))
			}
			for len(wire) > 4 || i == 199 && len(wire) > 0 {
				at := 0
				if random.Float64() < loss {
					at = random.IntN(min(len(wire), 3))
				}
				if random.Float64() >= loss {
					p, err := roce.ParseAs(roce.UnreliableConnection, wire[at])
					require.NoError(t, err)
					b.q.Receive(b.now, &p)
				}
				wire = append(wire[:at], wire[at+1:]...)
			}
		}
		require.Len(t, a.host.done, 200)
		for i, d := range b.host.data {
			require.Equal(t, OK, b.host.arrivals[i].Syndrome)
			require.True(t, sent[d], "a message that was never sent")
		}
		if loss == 0 {
			require.Len(t, b.host.data, 200)
		}
		require.NotEmpty(t, b.host.data)
	}
}

// Whatever the peer sends, no bound is passed and nothing is answered.
func FuzzUnreliable(f *testing.F) {
	f.Add([]byte{4, 0, 5, 0, 0, 0, 2, 0, 5})
	f.Add([]byte{6, 0, 255, 8, 0, 40, 0, 9, 0, 10, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		s := newUnreliable(t)
		for range 4 {
			s.host.post(700)
		}
		for ; len(in) >= 3; in = in[3:] {
			op := roce.UnreliableConnection.Opcode(roce.Opcode(in[0] % 0x20))
			n := int(in[2])
			if in[2] > 0x80 {
				n = testMTU
			}
			h := roce.Header{Opcode: op, PSN: s.q.respond.expected.psn() + uint32(int8(in[1])/32), Length: uint32(in[1])*3 + uint32(n),
				VA: testVA + uint64(in[1]&1), RKey: testKey + uint32(in[1]>>1&1)*uint32(in[2]&1)}
			p, err := roce.ParseAs(roce.UnreliableConnection, h.Append(nil, pattern(n)))
			switch {
			case err == nil:
				s.q.Receive(s.now, &p)
			case p.BTH != nil:
				s.q.Refuse(p.BTH)
			}
			s.wantSilence()
		}
		s.q.Fail()
		require.False(t, s.host.taken)
	})
}
