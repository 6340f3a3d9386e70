package rc

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// fuzzer plays the peer, the owner and the clock as its bytes say. Sequence
// numbers are drawn around those the queue pair expects, as random ones would
// all be dropped.
type fuzzer struct {
	in   []byte
	s    *script
	slot uint32
	next uint32 // slot that completes next
}

// byte returns the next byte of the input, then zeros.
func (f *fuzzer) byte() byte {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return b
}

func (f *fuzzer) pick(of ...uint32) uint32 { return of[int(f.byte())%len(of)] }

func (f *fuzzer) length() uint32 {
	return f.pick(0, 1, 8, 255, 256, 257, 512, 600, 1500, 4096, 4097, MaxMessage, MaxMessage+1, 1<<31, 1<<32-1)
}

// packet makes a packet out of parts that could all be right.
func (f *fuzzer) packet() []byte {
	op := roce.Opcode(f.byte() % 0x20)
	psn := f.s.q.respond.expected.psn()
	if !op.Info().Request() && op.Info().Kind != roce.KindNone {
		psn = f.s.q.request.oldest.psn()
	}
	h := roce.Header{
		Opcode:       op,
		PSN:          psn + uint32(int8(f.byte())/16),
		AckRequested: true,
		VA:           testVA + uint64(f.pick(0, 8, 1, 256, 4000, 4096, 1<<32-1)) - uint64(f.pick(0, 0, 1, testVA)),
		RKey:         f.pick(testKey, testKey, testKey, 1),
		Length:       f.length(),
		Syndrome:     roce.Syndrome(f.pick(0x1f, 0x1f, 0x60, 0x21, 0x00, 0x61, 0x62, 0x63, 0x64, 0x40, 0xff)),
		Original:     uint64(f.byte()),
		Invalidate:   f.pick(testKey, 1),
		Solicited:    f.byte()&1 != 0,
	}
	n := 0
	switch i := op.Info(); {
	case i.Payload == roce.FullMTU:
		n = int(f.pick(testMTU, testMTU, testMTU, 0, 4, 4096))
	case i.Payload != roce.NoPayload:
		n = int(f.pick(0, 1, 5, 88, 256, 257, 4096))
	}
	return h.Append(nil, pattern(n))
}

// goodRequest makes a request that is in order, as far as the open message goes;
// now and then an old one.
func (f *fuzzer) goodRequest() []byte {
	r := &f.s.q.respond
	m := &r.open
	h := roce.Header{VA: testVA + 8*uint64(f.byte()), RKey: testKey, AckRequested: f.byte()&3 != 0, SwapAdd: 1}
	h.PSN = r.expected.psn() - f.pick(0, 0, 0, 0, 0, 0, 1, 2, 3)
	n := uint32(f.byte())
	switch {
	case m.kind == roce.KindNone:
		h.Opcode = roce.Opcode(f.pick(0, 4, 5, 6, 6, 0xa, 0xb, 0xc, 0xc, 0x13, 0x14))
	case m.kind == roce.KindSend:
		h.Opcode = roce.Opcode(f.pick(1, 2, 3))
	case m.limit-m.off > testMTU:
		h.Opcode = roce.WriteMiddle
	default:
		h.Opcode, n = roce.Opcode(f.pick(8, 9)), m.limit-m.off
	}
	switch h.Opcode.Info().Payload {
	case roce.FullMTU:
		n = testMTU
	case roce.NoPayload:
		n = 0
	}
	switch h.Length = n; h.Opcode {
	case roce.ReadRequest, roce.WriteFirst:
		h.Length = 257 + 4*uint32(f.byte())
	}
	return h.Append(nil, pattern(int(n)))
}

// goodResponse makes a response to what the queue pair has sent.
func (f *fuzzer) goodResponse() []byte {
	r := &f.s.q.request
	h := roce.Header{Opcode: roce.Acknowledge, PSN: r.oldest.psn() + f.pick(0, 0, 0, 1, 2, 5),
		Syndrome: roce.Syndrome(f.pick(0x1f, 0x1f, 0x1f, 0x1f, 0x60, 0x21))}
	if r.works.head == r.works.begun || f.byte()%8 == 0 {
		return h.Append(nil, nil)
	}
	n := uint32(0)
	switch t := r.works.at(r.works.head); {
	case t.Op == OpRead:
		off := uint32(r.oldest-t.first) * testMTU
		n = min(t.Length-off, testMTU)
		place := 0
		if r.oldest == t.first || r.oldest == t.asked {
			place |= firstPacket
		}
		if r.oldest == t.end()-1 {
			place |= lastPacket
		}
		h.Opcode, h.Syndrome = responseOpcodes[place], roce.Ack
	case t.Op.isAtomic():
		h.Opcode, h.Syndrome = roce.AtomicAcknowledge, roce.Ack
	}
	return h.Append(nil, pattern(int(n)))
}

func (f *fuzzer) arrive(b []byte) {
	p, err := roce.Parse(b)
	switch reason, _ := err.(roce.Reason); {
	case err == nil:
		f.s.q.Receive(f.s.now, &p)
	case reason >= roce.ReasonOpcode:
		f.s.q.Refuse(p.BTH)
	}
}

func (f *fuzzer) act() {
	s := f.s
	switch f.byte() % 24 {
	case 16, 17, 18, 19:
		f.arrive(f.goodRequest())
	case 20, 21, 22, 23:
		f.arrive(f.goodResponse())
	case 0:
		f.arrive(f.packet())
	case 1:
		b := f.packet()
		for range f.byte() % 4 {
			b[int(f.byte())%len(b)] ^= f.byte()
		}
		f.arrive(b[:len(b)-int(f.byte())%8])
	case 2, 3, 4, 5:
		for range f.byte() % 8 {
			if n := s.q.Transmit(s.now, s.buf[:]); n > 0 {
				_, err := roce.Parse(s.buf[:n])
				require.NoError(s, err)
			}
		}
	case 6, 7, 8, 9:
		w := Work{Slot: f.slot, Op: Op(f.byte() % 9), Length: min(f.length(), 4096), Fence: f.byte()&1 != 0}
		f.slot++
		s.post(w)
	case 10, 11, 12:
		s.host.post(int(f.pick(0, 256, 600, 5000, 5000)))
	case 13:
		s.advance(time.Duration(f.byte()) * time.Microsecond)
	case 14:
		f.rare()
	}
}

func (f *fuzzer) rare() {
	s := f.s
	bad := func(off uint32) Syndrome {
		if off > 256 {
			return LocalProtection
		}
		return OK
	}
	switch f.byte() % 16 {
	case 0:
		s.q.Fail()
	case 1:
		s.host.gather = bad
	case 2:
		s.host.scatter = bad
	case 3:
		s.host.put = bad
	case 4:
		delete(s.host.regions, testKey)
	case 5:
		s.q.SetAccess(Access(f.byte()))
	}
}

// check looks at what must hold after every action.
func (f *fuzzer) check() {
	s, h := f.s, f.s.host
	for _, d := range h.done {
		require.Equal(s, f.next, d.Slot, "completion out of order")
		f.next++
	}
	h.done = h.done[:0]
	r := &s.q.request
	c, fates := s.q.Counters(), uint64(0)
	for _, n := range c.Fates {
		fates += n
	}
	require.Equal(s, c.RequestsReceived+c.ResponsesReceived, fates)
	require.LessOrEqual(s, r.oldest, r.next)
	require.LessOrEqual(s, r.next, r.newest)
	require.LessOrEqual(s, r.asked, r.next)
	require.LessOrEqual(s, r.reads, r.attr.Reads)
	require.GreaterOrEqual(s, r.reads, 0)
	w := &r.works
	require.LessOrEqual(s, w.current-w.head, w.begun-w.head)
	require.LessOrEqual(s, w.begun-w.head, w.tail-w.head)
	a := &s.q.respond.answers
	require.LessOrEqual(s, a.sending-a.head, a.tail-a.head)
	require.LessOrEqual(s, a.tail-a.head, a.limit)
	if p := a.pending(); p != nil {
		require.Less(s, p.next, p.stop)
	}
	if s.q.State() == Error {
		require.Equal(s, f.slot, f.next, "works left in error")
		require.False(s, h.taken, "receive left in error")
		require.Equal(s, FlushReceives, h.events[len(h.events)-1])
	}
}

// A hostile peer on both halves: nothing panics, the host is asked for nothing out
// of its bounds, and each work and each taken receive completes once, in order.
func FuzzPeer(f *testing.F) {
	f.Add([]byte("\x0a\x03\x10\x00\x01\x00\x05\x01\x03\x07"))
	f.Add([]byte("\x06\x06\x07\x00\x03\x02\x14\x00\x00\x01\x14\x00\x00\x01\x02\x07"))
	f.Add([]byte("\x06\x01\x08\x00\x03\x07\x14\x01\x04\x01\x02\x07\x0d\xff\x02\x07\x14\x04\x05\x01\x0d\xff"))
	f.Add([]byte("\x10\x00\x01\x00\x00\x07\x80\x02\x02\x10\x00\x01\x06\x00\x07\x80\x02\x07"))
	f.Add([]byte("\x06\x01\x02\x01\x03\x07\x0e\x00"))
	f.Fuzz(runFuzzer)
}

// The same with random bytes, so that every test run has some.
func TestRandomPeer(t *testing.T) {
	for _, seed := range seeds() {
		rnd := rand.New(rand.NewPCG(seed, 2))
		for range 40 {
			in := make([]byte, 600)
			for i := range in {
				in[i] = byte(rnd.Uint32())
			}
			if runFuzzer(t, in); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func runFuzzer(t *testing.T, in []byte) {
	s := newScript(t, func(p *Params, in *Receiving, out *Sending) {
		p.Window = 8
		in.Reads, out.Reads, out.Retries, out.RNRRetry = 2, 2, 2, 2
		in.PSN, out.PSN = 0xfffffe, 0xfffffd
	})
	f := &fuzzer{in: in, s: s}
	for len(f.in) > 0 {
		f.act()
		f.check()
	}
	s.q.Fail()
	f.check()
}
