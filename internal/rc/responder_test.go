package rc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// ask lets a request of the peer arrive that asks for an acknowledgement.
func (s *script) ask(op roce.Opcode, psn uint32, data []byte) {
	s.Helper()
	s.request(roce.Header{Opcode: op, PSN: psn, AckRequested: true, Length: uint32(len(data))}, data)
}

// request is ask with headers of the test's choice; addresses are those of the region.
func (s *script) request(h roce.Header, data []byte) {
	s.Helper()
	if h.VA == 0 && h.RKey == 0 {
		h.VA, h.RKey = testVA, testKey
	}
	s.send(h, data)
}

// PSN == expected: executed. ACK has the PSN of the newest packet and credits 0x1f.
func TestSendArrives(t *testing.T) {
	s := newScript(t)
	s.host.post(10)
	s.host.post(1000)
	s.host.post(1000)
	s.ask(roce.SendOnly, 500, []byte("hello"))
	s.want("Acknowledge 500 0x1f msn=1")
	s.ask(roce.SendFirst, 501, pattern(256))
	s.ask(roce.SendMiddle, 502, pattern(256))
	s.want("Acknowledge 502 0x1f msn=1")
	s.request(roce.Header{Opcode: roce.SendLastImmediate, PSN: 503, Imm: 7, Solicited: true, AckRequested: true}, []byte("end"))
	s.want("Acknowledge 503 0x1f msn=2")
	s.ask(roce.SendOnly, 504, nil)
	s.want("Acknowledge 504 0x1f msn=3")
	require.Equal(t, "hello", s.host.data[0])
	require.Equal(t, string(pattern(256))+string(pattern(256))+"end", s.host.data[1])
	s.wantArrivals(Arrival{Op: OpSend, Bytes: 5}, Arrival{Op: OpSendImm, Bytes: 515, Imm: 7, HasImm: true, Solicited: true},
		Arrival{Op: OpSend})
}

// WRITE data goes to its address; only one with immediate takes a receive, at its
// last packet, and says how much was written.
func TestWriteArrives(t *testing.T) {
	s := newScript(t)
	mem := s.host.regions[testKey].mem
	clear(mem)
	s.request(roce.Header{Opcode: roce.WriteFirst, PSN: 500, Length: 600}, pattern(600)[:256])
	s.request(roce.Header{Opcode: roce.WriteMiddle, PSN: 501}, pattern(600)[256:512])
	s.host.post(0)
	s.request(roce.Header{Opcode: roce.WriteLastImmediate, PSN: 502, Imm: 8, AckRequested: true}, pattern(600)[512:])
	s.want("Acknowledge 502 0x1f msn=1")
	require.Equal(t, pattern(600), mem[:600])
	s.wantArrivals(Arrival{Op: OpWriteImm, Bytes: 600, Imm: 8, HasImm: true})
	s.request(roce.Header{Opcode: roce.WriteOnly, PSN: 503, VA: testVA + 4093, RKey: testKey, Length: 3}, []byte("end"))
	require.Equal(t, "end", string(mem[4093:]))
	s.wantArrivals()
}

// Zero-length: R_Key and VA are not checked.
func TestZeroLength(t *testing.T) {
	s := newScript(t)
	s.host.post(0)
	s.send(roce.Header{Opcode: roce.WriteOnly, PSN: 500, AckRequested: true, VA: 1, RKey: 2}, nil)
	s.want("Acknowledge 500 0x1f msn=1")
	s.send(roce.Header{Opcode: roce.ReadRequest, PSN: 501, VA: 1, RKey: 2}, nil)
	s.want("RDMA READ Response Only 501 [0] 0x1f msn=2")
	s.send(roce.Header{Opcode: roce.WriteOnlyImmediate, PSN: 502, AckRequested: true, VA: 1, RKey: 2, Imm: 3}, nil)
	s.want("Acknowledge 502 0x1f msn=3")
	s.wantArrivals(Arrival{Op: OpWriteImm, Imm: 3, HasImm: true})
}

// READ responses: First, Middle, Last or Only, with sequence numbers of their own.
func TestReadArrives(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 503, Length: 256}, nil)
	s.host.post(0)
	s.ask(roce.SendOnly, 504, nil)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=3", "RDMA READ Response Middle 501 [256]",
		"RDMA READ Response Last 502 [88] 0x1f msn=3", "RDMA READ Response Only 503 [256] 0x1f msn=3",
		"Acknowledge 504 0x1f msn=3")
}

// Atomics answer the old value.
func TestAtomicsArrive(t *testing.T) {
	s := newScript(t)
	mem := s.host.regions[testKey].mem
	binary.NativeEndian.PutUint64(mem[8:], 40)
	at := func(op roce.Opcode, psn uint32, swapAdd, compare uint64) {
		s.request(roce.Header{Opcode: op, PSN: psn, VA: testVA + 8, RKey: testKey, SwapAdd: swapAdd, Compare: compare}, nil)
	}
	at(roce.FetchAdd, 500, 2, 0)
	at(roce.CompareSwap, 501, 7, 42)
	at(roce.CompareSwap, 502, 9, 42)
	s.want("Atomic Acknowledge 500 0x1f msn=3 old=40", "Atomic Acknowledge 501 0x1f msn=3 old=42",
		"Atomic Acknowledge 502 0x1f msn=3 old=7")
	require.EqualValues(t, 7, binary.NativeEndian.Uint64(mem[8:]))
}

// SEND with invalidate makes the key useless before the receive completes.
func TestSendInvalidateArrives(t *testing.T) {
	s := newScript(t)
	s.host.post(8)
	s.request(roce.Header{Opcode: roce.SendOnlyInvalidate, PSN: 500, Invalidate: testKey, AckRequested: true}, []byte("abc"))
	s.want("Acknowledge 500 0x1f msn=1")
	s.wantArrivals(Arrival{Op: OpSendInvalidate, Bytes: 3, Imm: testKey})
	require.Equal(t, []uint32{testKey}, s.host.dead)
}

// PSN ahead: NAK 0x60 with PSN = expected, once; then silence until it arrives.
func TestAheadIsRefusedOnce(t *testing.T) {
	s := newScript(t)
	for range 3 {
		s.host.post(8)
	}
	s.ask(roce.SendOnly, 501, nil)
	s.ask(roce.SendOnly, 502, nil)
	s.want("Acknowledge 500 0x60 msn=0")
	s.ask(roce.SendOnly, 503, nil)
	s.wantSilence()
	s.wantArrivals()
	s.ask(roce.SendOnly, 500, nil)
	s.want("Acknowledge 500 0x1f msn=1")
	s.step("the latch is open again")
	s.ask(roce.SendOnly, 502, nil)
	s.want("Acknowledge 501 0x60 msn=1")
	require.EqualValues(t, 4, s.q.Counters().OutOfSequence)
}

// If the expected packet comes before the NAK has gone out, the NAK is not needed.
func TestReorderedBeforeNAK(t *testing.T) {
	s := newScript(t)
	s.host.post(8)
	s.ask(roce.SendOnly, 501, nil)
	s.send(roce.Header{Opcode: roce.SendOnly, PSN: 500}, nil)
	s.want("Acknowledge 500 0x1f msn=1")
}

// Opcode sequence: Middle and Last follow First and Middle of the same kind; First,
// Only, READ and atomic not inside an open message. NAK 0x61, queue pair to error.
func TestOpcodeSequence(t *testing.T) {
	const none = roce.CongestionNotification
	for _, c := range []struct{ open, then roce.Opcode }{
		{none, roce.SendMiddle}, {none, roce.SendLast}, {none, roce.SendLastImmediate}, {none, roce.SendLastInvalidate},
		{none, roce.WriteMiddle}, {none, roce.WriteLast}, {none, roce.WriteLastImmediate},
		{roce.SendFirst, roce.SendFirst}, {roce.SendFirst, roce.SendOnly}, {roce.SendFirst, roce.WriteMiddle},
		{roce.SendFirst, roce.WriteLastImmediate}, {roce.SendFirst, roce.WriteOnly}, {roce.SendFirst, roce.ReadRequest},
		{roce.SendFirst, roce.FetchAdd},
		{roce.WriteFirst, roce.WriteFirst}, {roce.WriteFirst, roce.WriteOnlyImmediate}, {roce.WriteFirst, roce.SendLast},
		{roce.WriteFirst, roce.SendMiddle}, {roce.WriteFirst, roce.ReadRequest}, {roce.WriteFirst, roce.CompareSwap},
	} {
		t.Run(c.open.String()+"/"+c.then.String(), func(t *testing.T) {
			s := newScript(t)
			s.host.post(1000)
			s.host.post(1000)
			psn, msgs := uint32(500), []Arrival(nil)
			if c.open != none {
				s.request(roce.Header{Opcode: c.open, PSN: psn, Length: 1000}, pattern(256))
				psn++
			}
			if c.open == roce.SendFirst {
				msgs = append(msgs, Arrival{Op: OpSend, Syndrome: Flushed})
			}
			data := []byte(nil)
			switch c.then.Info().Payload {
			case roce.FullMTU:
				data = pattern(256)
			case roce.OneToMTU, roce.UpToMTU:
				data = pattern(1)
			}
			s.request(roce.Header{Opcode: c.then, PSN: psn, Length: uint32(len(data))}, data)
			if c.open == none {
				s.want("Acknowledge 500 0x61 msn=0")
			} else {
				s.want("Acknowledge 501 0x61 msn=0")
			}
			s.wantArrivals(msgs...)
			s.wantFlushed(RequestError)
		})
	}
}

// Queue pair access flags off: NAK 0x61.
func TestRights(t *testing.T) {
	for op, right := range map[roce.Opcode]Access{
		roce.WriteOnly: RemoteWrite, roce.WriteOnlyImmediate: RemoteWrite, roce.WriteFirst: RemoteWrite,
		roce.ReadRequest: RemoteRead, roce.FetchAdd: RemoteAtomic, roce.CompareSwap: RemoteAtomic,
	} {
		t.Run(op.String(), func(t *testing.T) {
			s := newScript(t)
			s.host.post(0)
			all := RemoteWrite | RemoteRead | RemoteAtomic
			s.q.SetAccess(all &^ right)
			var data []byte
			if op == roce.WriteFirst {
				data = pattern(256)
			}
			s.request(roce.Header{Opcode: op, PSN: 500}, data)
			s.want("Acknowledge 500 0x61 msn=0")
			s.wantArrivals()
			s.wantFlushed(AccessError)
		})
	}
}

// READ or atomic with max_dest_rd_atomic = 0: NAK 0x61.
func TestReadsNotKept(t *testing.T) {
	for _, op := range []roce.Opcode{roce.ReadRequest, roce.FetchAdd, roce.CompareSwap} {
		s := newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.Reads = 0 })
		s.request(roce.Header{Opcode: op, PSN: 500, Length: 1}, nil)
		s.want("Acknowledge 500 0x61 msn=0")
		s.wantFlushed(RequestError)
	}
}

// More outstanding than max_dest_rd_atomic: NAK 0x61, after the answers to those before.
func TestTooManyReads(t *testing.T) {
	s := newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.Reads = 2 })
	for i := range uint32(3) {
		s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500 + i, Length: 1}, nil)
	}
	s.want("RDMA READ Response Only 500 [1] 0x1f msn=2", "RDMA READ Response Only 501 [1] 0x1f msn=2",
		"Acknowledge 502 0x61 msn=2")
	s.wantFlushed(RequestError)

	s.step("one whose request came twice before it was answered is outstanding still")
	s = newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.Reads = 1 })
	for _, psn := range []uint32{500, 500, 501} {
		s.request(roce.Header{Opcode: roce.ReadRequest, PSN: psn, Length: 1}, nil)
	}
	s.want("RDMA READ Response Only 500 [1] 0x1f msn=1", "Acknowledge 501 0x61 msn=1")
}

// Those answered are not outstanding, and an answer that is only repeated gives way.
func TestReadsGiveWay(t *testing.T) {
	s := newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.Reads = 2 })
	read := func(psn uint32) { s.request(roce.Header{Opcode: roce.ReadRequest, PSN: psn, Length: 1}, nil) }
	for psn := uint32(500); psn < 504; psn++ {
		read(psn)
		require.NotEmpty(t, s.next())
	}
	read(502)
	read(504)
	s.want("RDMA READ Response Only 504 [1] 0x1f msn=5")
	s.step("forgotten by now")
	read(502)
	s.wantSilence()
	read(503)
	s.want("RDMA READ Response Only 503 [1] 0x1f msn=5")
}

// No receive: RNR NAK with PSN = that packet and the timer, nothing executed;
// later packets are dropped silently until that PSN comes again.
func TestReceiverNotReady(t *testing.T) {
	for _, op := range []roce.Opcode{roce.SendOnly, roce.SendFirst, roce.SendOnlyImmediate, roce.WriteOnlyImmediate} {
		t.Run(op.String(), func(t *testing.T) {
			s := newScript(t)
			clear(s.host.regions[testKey].mem)
			data := pattern(256)
			h := roce.Header{Opcode: op, PSN: 500, AckRequested: true, Length: 256}
			s.request(h, data)
			s.want("Acknowledge 500 0x2c msn=0")
			s.ask(roce.SendOnly, 501, nil)
			s.wantSilence()
			s.step("again too early")
			s.q.SetRNRTimer(1)
			s.request(h, data)
			s.want("Acknowledge 500 0x21 msn=0")
			require.Zero(t, s.host.regions[testKey].mem[1])
			s.host.post(1000)
			s.request(h, data)
			require.Contains(t, s.next(), "Acknowledge 500 0x1f")
			require.EqualValues(t, 2, s.q.Counters().OutOfBuffer)
		})
	}
}

// The last packet of a WRITE with immediate can be not ready too; the message stays open.
func TestReceiverNotReadyInside(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.WriteFirst, PSN: 500, Length: 257}, pattern(256))
	h := roce.Header{Opcode: roce.WriteLastImmediate, PSN: 501, AckRequested: true}
	s.send(h, []byte{1})
	s.want("Acknowledge 501 0x2c msn=0")
	s.host.post(0)
	s.send(h, []byte{1})
	s.want("Acknowledge 501 0x1f msn=1")
	s.wantArrivals(Arrival{Op: OpWriteImm, Bytes: 257, HasImm: true})
}

// SEND total > receive buffer: NAK 0x61, and the receive has a local length error.
func TestSendTooLong(t *testing.T) {
	s := newScript(t)
	s.host.post(4)
	s.ask(roce.SendOnly, 500, []byte("hello"))
	s.want("Acknowledge 500 0x61 msn=0")
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalLength})
	s.wantFlushed(RequestError)

	s = newScript(t)
	s.host.post(257)
	s.ask(roce.SendFirst, 500, pattern(256))
	s.ask(roce.SendLast, 501, pattern(2))
	s.want("Acknowledge 501 0x61 msn=0")
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalLength})
	s.wantFlushed(RequestError)
}

// WRITE: the sum of payloads must equal the length of the RETH; packets are exactly
// MTU when more remains; READs have a limit too. NAK 0x61.
func TestLengths(t *testing.T) {
	type packet struct {
		op     roce.Opcode
		length uint32
		n      int
	}
	for name, packets := range map[string][]packet{
		"only, less than announced": {{roce.WriteOnly, 5, 4}},
		"only, more than announced": {{roce.WriteOnly, 5, 6}},
		"only, more than the MTU":   {{roce.WriteOnly, 300, 300}},
		"first, not full":           {{roce.WriteFirst, 500, 252}},
		"first, too full":           {{roce.WriteFirst, 500, 260}},
		"first, nothing remains":    {{roce.WriteFirst, 256, 256}},
		"first, too much":           {{roce.WriteFirst, 255, 256}},
		"middle, not full":          {{roce.WriteFirst, 1000, 256}, {roce.WriteMiddle, 0, 252}},
		"middle, nothing remains":   {{roce.WriteFirst, 512, 256}, {roce.WriteMiddle, 0, 256}},
		"last, not enough":          {{roce.WriteFirst, 500, 256}, {roce.WriteLast, 0, 243}},
		"last, too much":            {{roce.WriteFirst, 500, 256}, {roce.WriteLast, 0, 245}},
		"last, more than the MTU":   {{roce.WriteFirst, 556, 256}, {roce.WriteLast, 0, 300}},
		"more than a message":       {{roce.WriteFirst, MaxMessage + 1, 256}},
		"read more than a message":  {{roce.ReadRequest, MaxMessage + 1, 0}},
		"send first, not full":      {{roce.SendFirst, 0, 252}},
		"send middle, not full":     {{roce.SendFirst, 0, 256}, {roce.SendMiddle, 0, 252}},
		"send only, over the MTU":   {{roce.SendOnly, 0, 257}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.host.post(2000)
			for i, p := range packets {
				s.request(roce.Header{Opcode: p.op, PSN: 500 + uint32(i), Length: p.length}, pattern(p.n))
				if i == len(packets)-1 {
					require.Contains(t, s.next(), " 0x61 msn=0")
				}
			}
			s.host.arrivals = nil
			s.wantFlushed(RequestError)
		})
	}
}

// R_Key: exists, right permission, range inside, checked on the first packet for
// the whole message: else NAK 0x62, queue pair to error.
func TestKeys(t *testing.T) {
	for _, op := range []roce.Opcode{roce.WriteOnly, roce.WriteFirst, roce.ReadRequest, roce.FetchAdd, roce.CompareSwap} {
		for name, h := range map[string]roce.Header{
			"no such key":      {VA: testVA, RKey: 1},
			"before":           {VA: testVA - 8, RKey: testKey},
			"beyond":           {VA: testVA + 4096 - 248, RKey: testKey},
			"atomic beyond":    {VA: testVA + 4096, RKey: testKey},
			"wraps":            {VA: ^uint64(0) - 7, RKey: testKey},
			"right of the key": {VA: testVA, RKey: 2},
		} {
			if op.Info().Headers&roce.HasAtomicETH != 0 && name == "beyond" {
				continue
			}
			t.Run(op.String()+"/"+name, func(t *testing.T) {
				s := newScript(t)
				s.host.regions[2] = &region{testVA, make([]byte, 4096), 0}
				h.Opcode, h.PSN = op, 500
				var data []byte
				switch op {
				case roce.WriteOnly:
					data, h.Length = pattern(256), 256
				case roce.WriteFirst:
					data, h.Length = pattern(256), 257
				case roce.ReadRequest:
					h.Length = 256
				}
				s.send(h, data)
				s.want("Acknowledge 500 0x62 msn=0")
				s.wantFlushed(AccessError)
			})
		}
	}
}

// A bad key with a receive open: local access error on the receive.
func TestKeyWithReceiveTaken(t *testing.T) {
	s := newScript(t)
	s.host.post(0)
	s.send(roce.Header{Opcode: roce.WriteOnlyImmediate, PSN: 500, Length: 1}, []byte{1})
	s.want("Acknowledge 500 0x62 msn=0")
	s.wantArrivals(Arrival{Op: OpWriteImm, Syndrome: LocalAccess})
	s.wantFlushed(AccessError)

	s = newScript(t)
	s.host.post(8)
	s.send(roce.Header{Opcode: roce.SendOnlyInvalidate, PSN: 500, Invalidate: 5}, []byte{1})
	s.want("Acknowledge 500 0x62 msn=0")
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalAccess})
	s.wantFlushed(AccessError)
}

// A key that dies under way: NAK 0x62 at the packet that finds out.
func TestKeyDies(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.WriteFirst, PSN: 500, Length: 257}, pattern(256))
	delete(s.host.regions, testKey)
	s.send(roce.Header{Opcode: roce.WriteLast, PSN: 501}, []byte{1})
	s.want("Acknowledge 501 0x62 msn=0")
	s.wantFlushed(AccessError)

	s = newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 503, Length: 600}, nil)
	require.Equal(t, "RDMA READ Response First 500 [256] 0x1f msn=2", s.next())
	delete(s.host.regions, testKey)
	s.want("Acknowledge 501 0x62 msn=2")
	s.wantFlushed(AccessError)
}

// The same while an earlier refusal waits for its turn: there is nothing more to say.
func TestKeyDiesInError(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.SendMiddle, PSN: 503}, pattern(256))
	delete(s.host.regions, testKey)
	s.wantSilence()
	s.wantFlushed(RequestError)
}

// An atomic whose key is good but which the host then cannot carry out.
func TestAtomicFails(t *testing.T) {
	s := newScript(t)
	s.q.host = atomicFails{s.host}
	s.request(roce.Header{Opcode: roce.FetchAdd, PSN: 500}, nil)
	s.want("Acknowledge 500 0x62 msn=0")
	s.wantFlushed(AccessError)
}

type atomicFails struct{ *testHost }

func (atomicFails) Atomic(uint32, uint64, Op, uint64, uint64) (uint64, bool) { return 0, false }

// Atomic VA not 8-aligned: NAK 0x61.
func TestAtomicAlignment(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.FetchAdd, PSN: 500, VA: testVA + 4, RKey: testKey}, nil)
	s.want("Acknowledge 500 0x61 msn=0")
	s.wantFlushed(RequestError)
}

// Local trouble (bad key in a receive): NAK 0x63, the receive has the host's error.
func TestReceiveFails(t *testing.T) {
	for _, data := range []string{"hello", ""} {
		s := newScript(t)
		s.host.post(8)
		s.host.put = func(uint32) Syndrome { return LocalProtection }
		s.ask(roce.SendOnly, 500, []byte(data))
		s.want("Acknowledge 500 0x63 msn=0")
		s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalProtection})
		s.wantFlushed(Fatal)
	}
}

// What roce.Parse refuses but has a BTH: in its turn NAK 0x61, else nothing.
func TestRefuse(t *testing.T) {
	refuse := func(s *script, op roce.Opcode, psn uint32) {
		b := (&roce.Header{Opcode: roce.SendOnly, PSN: psn}).Append(nil, nil)
		b[0] = byte(op)
		s.q.Refuse(b)
	}
	for _, op := range []roce.Opcode{0x15, 0x1c, roce.WriteOnly, roce.SendFirst} {
		s := newScript(t)
		refuse(s, op, 499)
		s.wantSilence()
		refuse(s, op, 501)
		s.want("Acknowledge 500 0x60 msn=0")
		refuse(s, op, 500)
		s.want("Acknowledge 500 0x61 msn=0")
		s.wantFlushed(RequestError)
	}
	s := newScript(t)
	refuse(s, roce.Acknowledge, 500)
	s.wantSilence()
	require.Equal(t, ReadyToSend, s.q.State())
	require.Equal(t, map[Fate]uint64{DropMalformed: 1}, dropped(s.q.Counters()))
}

// Duplicates: SEND and WRITE are not executed again; the ACK has the newest
// acknowledged PSN.
func TestDuplicates(t *testing.T) {
	s := newScript(t)
	s.host.post(8)
	s.host.post(257)
	mem := s.host.regions[testKey].mem
	clear(mem)
	s.ask(roce.SendOnly, 500, nil)
	s.ask(roce.WriteOnly, 501, []byte("new"))
	s.want("Acknowledge 501 0x1f msn=2")
	s.wantArrivals(Arrival{Op: OpSend})
	s.request(roce.Header{Opcode: roce.SendOnly, PSN: 500}, nil)
	s.want("Acknowledge 501 0x1f msn=2")
	s.request(roce.Header{Opcode: roce.WriteOnly, PSN: 501, Length: 3}, []byte("old"))
	s.want("Acknowledge 501 0x1f msn=2")
	s.wantArrivals()
	require.Equal(t, "new", string(mem[:3]))
	require.EqualValues(t, 2, s.q.Counters().Duplicates)
	s.step("inside an open message too")
	s.request(roce.Header{Opcode: roce.SendFirst, PSN: 502}, pattern(256))
	s.request(roce.Header{Opcode: roce.SendFirst, PSN: 502}, pattern(256))
	s.request(roce.Header{Opcode: roce.SendOnly, PSN: 500}, nil)
	s.want("Acknowledge 502 0x1f msn=2")
	s.ask(roce.SendLast, 503, pattern(1))
	s.want("Acknowledge 503 0x1f msn=3")
	s.wantArrivals(Arrival{Op: OpSend, Bytes: 257})
}

// A duplicate does not hide a NAK that has not gone out yet.
func TestDuplicateAfterNAK(t *testing.T) {
	s := newScript(t)
	s.host.post(8)
	s.ask(roce.SendOnly, 500, nil)
	s.ask(roce.SendOnly, 502, nil)
	s.ask(roce.SendOnly, 500, nil)
	s.want("Acknowledge 501 0x60 msn=1")
}

// A duplicate READ is executed again from memory: the same or a part of the
// remembered one, by the same key; anything else is dropped.
func TestDuplicateReads(t *testing.T) {
	s := newScript(t)
	mem := s.host.regions[testKey].mem
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, VA: testVA + 100, RKey: testKey, Length: 600}, nil)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=1", "RDMA READ Response Middle 501 [256]",
		"RDMA READ Response Last 502 [88] 0x1f msn=1")
	again := func(psn uint32, off uint64, n uint32) {
		s.request(roce.Header{Opcode: roce.ReadRequest, PSN: psn, VA: testVA + 100 + off, RKey: testKey, Length: n}, nil)
	}
	s.step("the same")
	again(500, 0, 600)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=1", "RDMA READ Response Middle 501 [256]",
		"RDMA READ Response Last 502 [88] 0x1f msn=1")
	s.step("a tail, with what is in memory now")
	again(501, 256, 344)
	mem[356] = 0xee
	require.Equal(t, "RDMA READ Response First 501 [256] 0x1f msn=1", s.next())
	require.Equal(t, byte(0xee), s.buf[roce.BTHSize+roce.AETHSize])
	s.want("RDMA READ Response Last 502 [88] 0x1f msn=1")
	again(502, 512, 88)
	s.want("RDMA READ Response Only 502 [88] 0x1f msn=1")
	s.step("a piece that ends before the end")
	again(500, 0, 300)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=1", "RDMA READ Response Last 501 [44] 0x1f msn=1")
	s.step("what it never asked for")
	again(500, 0, 601)
	again(500, 1, 600)
	again(501, 0, 600)
	again(499, 0, 600)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, VA: testVA + 99, RKey: testKey, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, VA: testVA + 100, RKey: 2, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, VA: 1, RKey: testKey, Length: 600}, nil)
	s.request(roce.Header{Opcode: roce.FetchAdd, PSN: 500}, nil)
	s.wantSilence()
	require.Equal(t, ReadyToSend, s.q.State())
}

// A duplicate atomic is never executed again, the saved value is answered.
func TestDuplicateAtomics(t *testing.T) {
	s := newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.Reads = 2 })
	add := func(psn uint32) { s.request(roce.Header{Opcode: roce.FetchAdd, PSN: psn, SwapAdd: 1}, nil) }
	clear(s.host.regions[testKey].mem)
	add(500)
	s.want("Atomic Acknowledge 500 0x1f msn=1 old=0")
	add(501)
	s.want("Atomic Acknowledge 501 0x1f msn=2 old=1")
	add(500)
	add(501)
	s.want("Atomic Acknowledge 500 0x1f msn=2 old=0", "Atomic Acknowledge 501 0x1f msn=2 old=1")
	add(502)
	s.want("Atomic Acknowledge 502 0x1f msn=3 old=2")
	s.step("the oldest is forgotten, a READ is not an atomic")
	add(500)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 501, Length: 8}, nil)
	s.send(roce.Header{Opcode: roce.ReadRequest, PSN: 501}, nil)
	s.wantSilence()
	require.EqualValues(t, 3, binary.NativeEndian.Uint64(s.host.regions[testKey].mem))
}

// Repeated answers go before later ones, so that the order is that of sequence
// numbers; what was being sent goes on after them where it was.
func TestRepeatedAnswersInOrder(t *testing.T) {
	s := newScript(t)
	read := func(psn, n uint32) { s.request(roce.Header{Opcode: roce.ReadRequest, PSN: psn, Length: n}, nil) }
	read(500, 1)
	read(501, 600)
	read(504, 1)
	require.Contains(t, s.next(), "Only 500")
	require.Contains(t, s.next(), "First 501")
	read(500, 1)
	s.want("RDMA READ Response Only 500 [1] 0x1f msn=3", "RDMA READ Response Middle 502 [256]",
		"RDMA READ Response Last 503 [88] 0x1f msn=3", "RDMA READ Response Only 504 [1] 0x1f msn=3")
	read(504, 1)
	read(501, 600)
	require.Contains(t, s.next(), "First 501")
	read(501, 600)
	s.want("RDMA READ Response First 501 [256] 0x1f msn=3", "RDMA READ Response Middle 502 [256]",
		"RDMA READ Response Last 503 [88] 0x1f msn=3", "RDMA READ Response Only 504 [1] 0x1f msn=3")
}

// Coalescing: one ACK acknowledges everything before it; only A=1 is answered.
func TestAckCoalescing(t *testing.T) {
	s := newScript(t)
	for range 4 {
		s.host.post(0)
	}
	s.ask(roce.SendOnly, 500, nil)
	s.ask(roce.SendOnly, 501, nil)
	s.send(roce.Header{Opcode: roce.SendOnly, PSN: 502}, nil)
	s.want("Acknowledge 502 0x1f msn=3")
	s.send(roce.Header{Opcode: roce.SendOnly, PSN: 503}, nil)
	s.wantSilence()
}

// READ responses and atomic ACKs acknowledge everything before them: no ACK besides.
func TestAnswersAcknowledge(t *testing.T) {
	s := newScript(t)
	s.host.post(0)
	s.ask(roce.SendOnly, 500, nil)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 501, AckRequested: true, Length: 1}, nil)
	s.want("RDMA READ Response Only 501 [1] 0x1f msn=2")
}

// NAKs wait behind READ responses too.
func TestNAKWaitsForAnswers(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 300}, nil)
	s.ask(roce.SendOnly, 503, nil)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=1", "RDMA READ Response Last 501 [44] 0x1f msn=1",
		"Acknowledge 502 0x60 msn=1")
}

// After a fatal NAK works and receives flush, later requests are dropped.
func TestErrorDropsRequests(t *testing.T) {
	s := newScript(t)
	s.host.post(1)
	s.host.post(1)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	s.ask(roce.SendOnly, 500, []byte("hello"))
	s.wantDone(done{1, Flushed, 0}, done{2, Flushed, 0})
	s.want("Acknowledge 500 0x61 msn=0")
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: LocalLength})
	s.ask(roce.SendOnly, 500, nil)
	s.ask(roce.SendOnly, 499, nil)
	s.ask(roce.SendOnly, 501, nil)
	s.ack(100, roce.Ack)
	s.q.Refuse((&roce.Header{Opcode: roce.SendOnly, PSN: 500}).Append(nil, nil))
	s.wantArrivals()
	s.wantFlushed(RequestError)
	require.Equal(t, map[Fate]uint64{DropRefused: 1, DropState: 5}, dropped(s.q.Counters()))
}

// MSN counts messages modulo 2^24; sequence numbers of the peer wrap as well.
func TestResponderWraps(t *testing.T) {
	s := newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.PSN = 0xffffff })
	s.q.respond.msn = 0xffffff
	s.host.post(0)
	s.host.post(0)
	s.ask(roce.SendOnly, 0xffffff, nil)
	s.want("Acknowledge 16777215 0x1f msn=0")
	s.ask(roce.SendOnly, 0, nil)
	s.want("Acknowledge 0 0x1f msn=1")
	s.step("a READ across the wrap, and its tail again")
	s = newScript(t, func(_ *Params, a *Receiving, _ *Sending) { a.PSN = 0xffffff })
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 0xffffff, Length: 300}, nil)
	s.want("RDMA READ Response First 16777215 [256] 0x1f msn=1", "RDMA READ Response Last 0 [44] 0x1f msn=1")
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 0, VA: testVA + 256, RKey: testKey, Length: 44}, nil)
	s.want("RDMA READ Response Only 0 [44] 0x1f msn=1")
}

// P_Key: low 15 bits equal; else dropped silently.
func TestPartition(t *testing.T) {
	for key, ok := range map[uint16]bool{0xffff: true, 0x7fff: true, 0x8001: false, 0xfffe: false} {
		s := newScript(t)
		s.host.post(0)
		s.post(Work{Slot: 1, Op: OpSend})
		s.next()
		s.request(roce.Header{Opcode: roce.SendOnly, PSN: 500, PKey: key}, nil)
		s.send(roce.Header{Opcode: roce.Acknowledge, PSN: 100, PKey: key, Syndrome: roce.Ack}, nil)
		require.Equal(t, ok, len(s.host.arrivals) == 1, "%#x", key)
		require.Equal(t, ok, len(s.host.done) == 1, "%#x", key)
	}
}

// While it can only receive, a queue pair answers requests, ignores responses, and
// reports the first request.
func TestReadyToReceive(t *testing.T) {
	h := newTestHost(t)
	s := &script{T: t, host: h, now: testNow, q: New(h, Params{})}
	h.post(0)
	h.post(0)
	s.ask(roce.SendOnly, 500, nil)
	require.NoError(t, s.q.StartReceive(Receiving{PeerQPN: peerQPN, MTU: 256, PSN: 500}))
	s.ack(0, roce.Ack)
	require.Equal(t, map[Fate]uint64{DropState: 2}, dropped(s.q.Counters()))
	s.ask(roce.SendOnly, 500, nil)
	s.ask(roce.SendOnly, 501, nil)
	s.want("Acknowledge 501 0x1f msn=2")
	s.wantEvents(Established)
	s.advance(time.Hour)
	s.wantDeadline(0)
}
