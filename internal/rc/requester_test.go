package rc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// Message of length L: one packet if L <= MTU (Only), else First, Middle..., Last;
// every packet but the last carries exactly MTU. Zero length is one packet.
func TestSegmentation(t *testing.T) {
	const reth = " va=0x10000 key=0x77"
	for _, c := range []struct {
		name string
		work Work
		want []string
	}{
		{"empty send", Work{Op: OpSend}, []string{"SEND Only 100 [0] A"}},
		{"a byte", Work{Op: OpSend, Length: 1}, []string{"SEND Only 100 [1] A"}},
		{"exactly the MTU", Work{Op: OpSend, Length: 256}, []string{"SEND Only 100 [256] A"}},
		{"a byte more", Work{Op: OpSend, Length: 257}, []string{"SEND First 100 [256]", "SEND Last 101 [1] A"}},
		{"three packets", Work{Op: OpSend, Length: 768},
			[]string{"SEND First 100 [256]", "SEND Middle 101 [256]", "SEND Last 102 [256] A"}},
		{"immediate", Work{Op: OpSendImm, Length: 300, Imm: 9},
			[]string{"SEND First 100 [256]", "SEND Last with Immediate 101 [44] imm=9 A"}},
		{"short immediate", Work{Op: OpSendImm, Length: 3, Imm: 9}, []string{"SEND Only with Immediate 100 [3] imm=9 A"}},
		{"invalidate", Work{Op: OpSendInvalidate, Length: 300, Imm: 9},
			[]string{"SEND First 100 [256]", "SEND Last with Invalidate 101 [44] inv=0x9 A"}},
		{"short invalidate", Work{Op: OpSendInvalidate, Imm: 9}, []string{"SEND Only with Invalidate 100 [0] inv=0x9 A"}},
		{"empty write", Work{Op: OpWrite}, []string{"RDMA WRITE Only 100 [0]" + reth + " len=0 A"}},
		{"write", Work{Op: OpWrite, Length: 700}, []string{"RDMA WRITE First 100 [256]" + reth + " len=700",
			"RDMA WRITE Middle 101 [256]", "RDMA WRITE Last 102 [188] A"}},
		{"write with immediate", Work{Op: OpWriteImm, Length: 257, Imm: 9},
			[]string{"RDMA WRITE First 100 [256]" + reth + " len=257", "RDMA WRITE Last with Immediate 101 [1] imm=9 A"}},
		{"short write with immediate", Work{Op: OpWriteImm, Length: 5, Imm: 9},
			[]string{"RDMA WRITE Only with Immediate 100 [5]" + reth + " len=5 imm=9 A"}},
		{"read", Work{Op: OpRead, Length: 700}, []string{"RDMA READ Request 100" + reth + " len=700 A"}},
		{"empty read", Work{Op: OpRead}, []string{"RDMA READ Request 100" + reth + " len=0 A"}},
		{"compare and swap", Work{Op: OpCompareSwap, SwapAdd: 5, Compare: 6},
			[]string{"Compare and Swap 100" + reth + " swapadd=5 compare=6 A"}},
		{"fetch and add", Work{Op: OpFetchAdd, SwapAdd: 5}, []string{"Fetch and Add 100" + reth + " swapadd=5 compare=0 A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			c.work.Remote, c.work.RKey = testVA, testKey
			s.post(c.work)
			s.want(c.want...)
		})
	}
}

// The payload is that of the work, whichever packet it is in.
func TestPayload(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpSend, Length: 600})
	var got []byte
	for {
		n := s.q.Transmit(s.now, s.buf[:])
		if n == 0 {
			break
		}
		p, err := roce.Parse(s.buf[:n])
		require.NoError(t, err)
		got = append(got, p.Payload...)
	}
	require.Equal(t, pattern(600), got)
}

// A READ request takes max(1, ceil(len/MTU)) sequence numbers, its responses carry
// them, the next request continues after them. An atomic takes one.
func TestReadTakesNumbers(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpRead, Length: 600})
	s.post(Work{Slot: 1, Op: OpRead, Length: 0})
	s.post(Work{Slot: 2, Op: OpFetchAdd})
	s.post(Work{Slot: 3, Op: OpSend, Length: 2})
	s.want("RDMA READ Request 100 va=0x0 key=0x0 len=600 A",
		"RDMA READ Request 103 va=0x0 key=0x0 len=0 A",
		"Fetch and Add 104 va=0x0 key=0x0 swapadd=0 compare=0 A",
		"SEND Only 105 [2] A")
}

// SE only on the last packet of SENDs and of WRITE with immediate.
func TestSolicitedOnlyLast(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpSend, Length: 257, Solicited: true})
	s.post(Work{Slot: 1, Op: OpWriteImm, Length: 1, Solicited: true})
	s.post(Work{Slot: 2, Op: OpWrite, Length: 1, Solicited: true})
	s.want("SEND First 100 [256]", "SEND Last 101 [1] SE A",
		"RDMA WRITE Only with Immediate 102 [1] va=0x0 key=0x0 len=1 imm=0 SE A",
		"RDMA WRITE Only 103 [1] va=0x0 key=0x0 len=1 A")
}

// An acknowledgement is asked for at the end of a message, now and then inside
// one, and before the window closes; no more than the window is outstanding.
func TestWindow(t *testing.T) {
	s := newScript(t, func(p *Params, _ *Receiving, _ *Sending) { p.Window = 8 })
	s.post(Work{Op: OpSend, Length: 20 * 256})
	s.want("SEND First 100 [256]", "SEND Middle 101 [256] A", "SEND Middle 102 [256]", "SEND Middle 103 [256] A",
		"SEND Middle 104 [256]", "SEND Middle 105 [256] A", "SEND Middle 106 [256]", "SEND Middle 107 [256] A")
	s.step("each answer opens it by as many packets as it acknowledges")
	s.ack(101, roce.Ack)
	s.want("SEND Middle 108 [256]", "SEND Middle 109 [256] A")
	s.ack(102, roce.Ack)
	s.want("SEND Middle 110 [256] A")
}

// A window that is no multiple of the interval still asks before it closes.
func TestWindowClosesAsking(t *testing.T) {
	s := newScript(t, func(p *Params, _ *Receiving, _ *Sending) { p.Window = 10 })
	s.post(Work{Op: OpSend, Length: 20 * 256})
	for range 9 {
		s.next()
	}
	s.want("SEND Middle 109 [256] A")
}

// ACK at p completes all SENDs and WRITEs with last PSN <= p, in their order.
func TestAckCompletesAllBefore(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend, Length: 5})
	s.post(Work{Slot: 2, Op: OpWrite, Length: 600})
	s.post(Work{Slot: 3, Op: OpSend, Length: 7})
	for s.next() != "" {
	}
	s.step("inside the WRITE")
	s.ack(102, roce.Ack)
	s.wantDone(done{1, OK, 5})
	s.step("the same again, and older ones: stale")
	s.ack(102, roce.Ack)
	s.ack(99, roce.Ack)
	s.wantDone()
	require.Equal(t, map[Fate]uint64{DropStale: 2}, dropped(s.q.Counters()))
	s.ack(104, roce.Ack)
	s.wantDone(done{2, OK, 600}, done{3, OK, 7})
}

// An answer to a packet that has never been sent is dropped.
func TestForgedAck(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpSend})
	s.ack(100, roce.Ack)
	s.ack(101, roce.Ack)
	s.want("SEND Only 100 [0] A")
	s.ack(101, roce.Ack)
	s.ack(101, roce.NAKSequence)
	s.wantDone()
	require.Equal(t, map[Fate]uint64{DropStale: 4}, dropped(s.q.Counters()))
}

// Sequence numbers wrap at 2^24.
func TestSequenceWraps(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.PSN = 0xffffff })
	s.post(Work{Slot: 1, Op: OpSend, Length: 257})
	s.post(Work{Slot: 2, Op: OpSend})
	s.want("SEND First 16777215 [256]", "SEND Last 0 [1] A", "SEND Only 1 [0] A")
	s.ack(0xffffff, roce.Ack)
	s.wantDone()
	s.ack(1, roce.Ack)
	s.wantDone(done{1, OK, 257}, done{2, OK, 0})
}

// At most max_rd_atomic READs and atomics are outstanding: they stall the queue,
// also for later works.
func TestReadsStallQueue(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Reads = 2 })
	s.post(Work{Slot: 1, Op: OpRead, Length: 1})
	s.post(Work{Slot: 2, Op: OpFetchAdd})
	s.post(Work{Slot: 3, Op: OpRead, Length: 1})
	s.post(Work{Slot: 4, Op: OpSend})
	s.want("RDMA READ Request 100 va=0x0 key=0x0 len=1 A", "Fetch and Add 101 va=0x0 key=0x0 swapadd=0 compare=0 A")
	s.respond(roce.ReadResponseOnly, 100, []byte{1})
	s.wantDone(done{1, OK, 1})
	s.want("RDMA READ Request 102 va=0x0 key=0x0 len=1 A", "SEND Only 103 [0] A")
}

// Fence: wait for all READs and atomics.
func TestFence(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpRead, Length: 1})
	s.post(Work{Slot: 2, Op: OpSend})
	s.post(Work{Slot: 3, Op: OpSend, Length: 300, Fence: true})
	s.want("RDMA READ Request 100 va=0x0 key=0x0 len=1 A", "SEND Only 101 [0] A")
	s.respond(roce.ReadResponseOnly, 100, []byte{1})
	s.step("the SEND before is outstanding still: a fence does not wait for it")
	s.want("SEND First 102 [256]", "SEND Last 103 [44] A")
	s.wantDone(done{1, OK, 1})
}

// A Nop sends nothing and completes in its turn; fenced, after the READs.
func TestNop(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpNop})
	s.wantSilence()
	s.wantDone(done{1, OK, 0})
	s.post(Work{Slot: 2, Op: OpSend})
	s.post(Work{Slot: 3, Op: OpNop})
	s.post(Work{Slot: 4, Op: OpRead})
	s.post(Work{Slot: 5, Op: OpNop, Fence: true})
	s.post(Work{Slot: 6, Op: OpSend})
	s.want("SEND Only 100 [0] A", "RDMA READ Request 101 va=0x0 key=0x0 len=0 A")
	s.wantDone()
	s.ack(100, roce.Ack)
	s.wantDone(done{2, OK, 0}, done{3, OK, 0})
	s.respond(roce.ReadResponseOnly, 101, nil)
	s.want("SEND Only 102 [0] A")
	s.wantDone(done{4, OK, 0}, done{5, OK, 0})
}

// A Nop completes though the window is closed.
func TestNopInClosedWindow(t *testing.T) {
	s := newScript(t, func(p *Params, _ *Receiving, _ *Sending) { p.Window = 1 })
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpNop})
	s.post(Work{Slot: 3, Op: OpSend})
	s.want("SEND Only 100 [0] A")
	s.ack(100, roce.Ack)
	s.wantDone(done{1, OK, 0}, done{2, OK, 0})
}

// A Nop is done with once, also when the packet before it is sent again and only
// then acknowledged, in one with a packet after it.
func TestNopAfterGoingBack(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpNop})
	s.post(Work{Slot: 3, Op: OpRead})
	for s.next() != "" {
	}
	s.ack(100, roce.NAKSequence)
	require.Equal(t, "SEND Only 100 [0] A", s.next())
	s.ack(100, roce.Ack)
	s.wantDone(done{1, OK, 0}, done{2, OK, 0})
	s.respond(roce.ReadResponseOnly, 101, nil)
	s.wantDone(done{3, OK, 0})
}

// Works posted before ReadyToSend go out then.
func TestPostEarly(t *testing.T) {
	h := newTestHost(t)
	q := New(h, Params{})
	q.Post(&Work{Op: OpSend})
	require.NoError(t, q.StartReceive(Receiving{MTU: 256}))
	var p [512]byte
	require.Zero(t, q.Transmit(testNow, p[:]))
	require.NoError(t, q.StartSend(Sending{}))
	require.NotZero(t, q.Transmit(testNow, p[:]))
}

// More works than Depth make the queue grow, and nothing is lost or reordered.
func TestQueueGrows(t *testing.T) {
	s := newScript(t)
	var want []done
	psn := uint32(sendPSN)
	for i := range uint32(3) {
		s.post(Work{Slot: i, Op: OpSend})
	}
	for s.next() != "" {
	}
	s.ack(psn+1, roce.Ack)
	for i := range uint32(40) {
		s.post(Work{Slot: 3 + i, Op: OpSend})
	}
	for s.next() != "" {
	}
	s.ack(psn+42, roce.Ack)
	for i := range uint32(43) {
		want = append(want, done{i, OK, 0})
	}
	s.wantDone(want...)
}
