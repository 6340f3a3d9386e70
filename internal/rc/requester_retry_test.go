package rc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

var testNow = time.Unix(1000, 0)

const testRead = " va=0x10000 key=0x77"

// postRead posts a READ of the region and sends the request.
func (s *script) postRead(slot, n uint32) {
	s.Helper()
	s.post(Work{Slot: slot, Op: OpRead, Length: n, Remote: testVA, RKey: testKey})
	require.NotEmpty(s, s.next())
}

// NAK 0x60 at p acknowledges everything < p; resend from p. Inside a message that
// is a Middle or Last, and the RETH is not repeated.
func TestSequenceNAK(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend, Length: 5})
	s.post(Work{Slot: 2, Op: OpWrite, Length: 600})
	for s.next() != "" {
	}
	s.ack(102, roce.NAKSequence)
	s.wantDone(done{1, OK, 5})
	s.want("RDMA WRITE Middle 102 [256]", "RDMA WRITE Last 103 [88] A")
	s.ack(103, roce.Ack)
	s.wantDone(done{2, OK, 600})
	require.EqualValues(t, 2, s.q.Counters().RequestsRepeated)
}

// One loss makes many NAKs: only the first is obeyed until there is progress.
func TestSequenceNAKOnce(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	for s.next() != "" {
	}
	s.ack(100, roce.NAKSequence)
	s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
	s.ack(100, roce.NAKSequence)
	s.wantSilence()
	s.step("after progress a NAK is news")
	s.ack(101, roce.NAKSequence)
	s.want("SEND Only 101 [0] A")
}

// An acknowledgement of packets sent before going back counts: they are not sent again.
func TestAckWhileGoingBack(t *testing.T) {
	s := newScript(t)
	for i := range uint32(4) {
		s.post(Work{Slot: i, Op: OpSend})
	}
	for s.next() != "" {
	}
	s.ack(100, roce.NAKSequence)
	require.Equal(t, "SEND Only 100 [0] A", s.next())
	s.ack(102, roce.Ack)
	s.want("SEND Only 103 [0] A")
	s.wantDeadline(testWait)
}

// If p lies beyond an outstanding READ or atomic whose response has not arrived,
// that response was lost: go back to that READ or atomic.
func TestImpliedNAK(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want string
	}{
		{OpRead, "RDMA READ Request 101" + testRead + " len=9 A"},
		{OpFetchAdd, "Fetch and Add 101" + testRead + " swapadd=1 compare=0 A"},
	} {
		for name, answer := range map[string]func(s *script){
			"ack":             func(s *script) { s.ack(102, roce.Ack) },
			"sequence nak":    func(s *script) { s.ack(102, roce.NAKSequence) },
			"rnr nak":         func(s *script) { s.ack(102, roce.RNRNak(1)) },
			"fatal nak":       func(s *script) { s.ack(102, roce.NAKInvalidRequest) },
			"ack of itself":   func(s *script) { s.ack(101, roce.Ack) },
			"read response":   func(s *script) { s.respond(roce.ReadResponseOnly, 103, []byte{1}) },
			"atomic response": func(s *script) { s.respond(roce.AtomicAcknowledge, 103, nil) },
		} {
			t.Run(c.op.String()+"/"+name, func(t *testing.T) {
				s := newScript(t)
				s.post(Work{Slot: 1, Op: OpSend})
				s.post(Work{Slot: 2, Op: c.op, Length: 9, Remote: testVA, RKey: testKey, SwapAdd: 1})
				s.post(Work{Slot: 3, Op: OpSend})
				s.post(Work{Slot: 4, Op: OpRead, Length: 1, Remote: testVA, RKey: testKey})
				for s.next() != "" {
				}
				answer(s)
				s.wantDone(done{1, OK, 0})
				require.EqualValues(t, 1, s.q.Counters().ImpliedNAKs)
				s.want(c.want, "SEND Only 102 [0] A", "RDMA READ Request 103"+testRead+" len=1 A")
				s.step("the rest of what was under way tells the same")
				answer(s)
				s.wantSilence()
			})
		}
	}
}

// READ responses come in order and land in local memory; the last one completes.
func TestReadResponses(t *testing.T) {
	s := newScript(t)
	s.postRead(1, 600)
	local := s.host.local[1]
	clear(local)
	s.respond(roce.ReadResponseFirst, 100, pattern(600)[:256])
	s.respond(roce.ReadResponseMiddle, 101, pattern(600)[256:512])
	s.wantDone()
	s.respond(roce.ReadResponseLast, 102, pattern(600)[512:])
	s.wantDone(done{1, OK, 600})
	require.Equal(t, pattern(600), local)
}

// A gap in the responses: a READ Request for the rest (PSN = first missing, VA and
// length moved on); its answer begins with First or Only.
func TestReadGap(t *testing.T) {
	s := newScript(t)
	data := pattern(1000)
	s.postRead(1, 1000)
	s.respond(roce.ReadResponseFirst, 100, data[:256])
	s.respond(roce.ReadResponseMiddle, 102, data[512:768])
	s.want("RDMA READ Request 101 va=0x10100 key=0x77 len=744 A")
	s.step("the rest of the old answer is of no use")
	s.respond(roce.ReadResponseLast, 103, data[768:])
	s.wantSilence()
	s.respond(roce.ReadResponseFirst, 101, data[256:512])
	s.respond(roce.ReadResponseMiddle, 102, data[512:768])
	s.respond(roce.ReadResponseLast, 103, data[768:])
	s.wantDone(done{1, OK, 1000})
	require.Equal(t, data, s.host.local[1])
}

// The answer to the tail may be a single packet; the old answer, late, is as good.
func TestReadTail(t *testing.T) {
	data := pattern(300)
	for _, op := range []roce.Opcode{roce.ReadResponseOnly, roce.ReadResponseLast} {
		s := newScript(t)
		s.postRead(1, 300)
		s.respond(roce.ReadResponseFirst, 100, data[:256])
		s.advance(testWait)
		s.want("RDMA READ Request 101 va=0x10100 key=0x77 len=44 A")
		s.respond(op, 101, data[256:])
		s.wantDone(done{1, OK, 300})
	}
}

// A READ that starts anew in the middle counts as outstanding again.
func TestReadTailCounts(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Reads = 2 })
	s.postRead(1, 300)
	s.postRead(2, 1)
	s.post(Work{Slot: 3, Op: OpRead})
	s.respond(roce.ReadResponseFirst, 100, pattern(256))
	s.advance(testWait)
	s.want("RDMA READ Request 101 va=0x10100 key=0x77 len=44 A", "RDMA READ Request 102"+testRead+" len=1 A")
	s.respond(roce.ReadResponseOnly, 101, pattern(44))
	s.want("RDMA READ Request 103 va=0x0 key=0x0 len=0 A")
	s.respond(roce.ReadResponseOnly, 102, pattern(1))
	s.respond(roce.ReadResponseOnly, 103, nil)
	s.wantDone(done{1, OK, 300}, done{2, OK, 1}, done{3, OK, 0})
}

// An answer that comes after going back, but before the request has gone out
// again, is as good; what it was about is not outstanding any more.
func TestAnswerInTime(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Reads = 1 })
	s.postRead(1, 1)
	s.post(Work{Slot: 2, Op: OpRead})
	s.post(Work{Slot: 3, Op: OpRead})
	s.advance(testWait)
	s.respond(roce.ReadResponseOnly, 100, []byte{1})
	s.wantDone(done{1, OK, 1})
	s.want("RDMA READ Request 101 va=0x0 key=0x0 len=0 A")
}

// A wrong opcode order is retried like a gap.
func TestReadResponseOrder(t *testing.T) {
	s := newScript(t)
	s.postRead(1, 600)
	s.step("the answer must begin with First")
	s.respond(roce.ReadResponseMiddle, 100, pattern(256))
	s.want("RDMA READ Request 100" + testRead + " len=600 A")
	s.respond(roce.ReadResponseFirst, 100, pattern(256))
	s.step("and go on with Middle")
	s.respond(roce.ReadResponseFirst, 101, pattern(256))
	s.want("RDMA READ Request 101 va=0x10100 key=0x77 len=344 A")
}

// The value an atomic found is given to the host in the order of this machine.
func TestAtomicResponse(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpCompareSwap})
	s.next()
	s.send(roce.Header{Opcode: roce.AtomicAcknowledge, PSN: 100, Syndrome: roce.Ack, Original: 0x1122334455667788}, nil)
	s.wantDone(done{1, OK, 8})
	require.Equal(t, uint64(0x1122334455667788), binary.NativeEndian.Uint64(s.host.local[1]))
}

// RNR NAK at p acknowledges < p; wait at least the timer, resend from p.
func TestReceiverNotReadyWait(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Retries = 0 })
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	s.post(Work{Slot: 3, Op: OpSend})
	for s.next() != "" {
	}
	s.ack(101, roce.RNRNak(12)) // 0.64 ms
	s.wantDone(done{1, OK, 0})
	s.wantSilence()
	s.wantDeadline(640 * time.Microsecond)
	s.step("rxe sends a sequence NAK for the rest of the burst, and NAKs may be duplicated")
	s.ack(101, roce.NAKSequence)
	s.advance(100 * time.Microsecond)
	s.ack(101, roce.RNRNak(12))
	s.wantSilence()
	s.wantDeadline(540 * time.Microsecond)
	s.step("not earlier than asked")
	s.advance(540*time.Microsecond - 1)
	s.wantSilence()
	s.advance(1)
	s.want("SEND Only 101 [0] A", "SEND Only 102 [0] A")
	s.wantDeadline(testWait)
}

// The wait is over when the peer takes the packet after all.
func TestReceiverNotReadyThenAck(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	for s.next() != "" {
	}
	s.ack(100, roce.RNRNak(31))
	s.ack(100, roce.Ack)
	s.want("SEND Only 101 [0] A")
}

// rnr_retry counts down per RNR NAK; 0 = fail, 7 = for ever. Progress resets it.
func TestReceiverNotReadyRetries(t *testing.T) {
	for retries := range uint8(8) {
		s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.RNRRetry = retries })
		s.post(Work{Slot: 1, Op: OpSend})
		s.post(Work{Slot: 2, Op: OpSend})
		rounds := func(psn uint32, n int) {
			for range n {
				for s.next() != "" {
				}
				s.ack(psn, roce.RNRNak(1))
				s.advance(10 * time.Microsecond)
			}
		}
		if retries == 7 {
			rounds(100, 1000)
			require.Equal(t, ReadyToSend, s.q.State())
			continue
		}
		rounds(100, int(retries))
		for s.next() != "" {
		}
		s.ack(100, roce.Ack)
		s.wantDone(done{1, OK, 0})
		rounds(101, int(retries))
		require.Equal(t, ReadyToSend, s.q.State(), retries)
		for s.next() != "" {
		}
		s.ack(101, roce.RNRNak(1))
		s.wantDone(done{2, NotReadyRetriesExceeded, 0})
		s.wantFlushed()
	}
}

// Timeout: 4.096 us * 2^timeout after the packet that asked, or after the last
// progress. On expiry resend from oldest unacked.
func TestTimeout(t *testing.T) {
	s := newScript(t)
	s.wantDeadline(0)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	s.post(Work{Slot: 3, Op: OpSend})
	s.next()
	s.wantDeadline(testWait)
	s.step("later packets do not put it off")
	s.advance(testWait / 2)
	s.next()
	s.next()
	s.wantDeadline(testWait / 2)
	s.step("progress does")
	s.ack(100, roce.Ack)
	s.wantDeadline(testWait)
	s.advance(testWait - 1)
	s.wantSilence()
	s.advance(1)
	s.wantDone(done{1, OK, 0})
	s.want("SEND Only 101 [0] A", "SEND Only 102 [0] A")
	s.ack(102, roce.Ack)
	s.wantDeadline(0)
	require.EqualValues(t, 1, s.q.Counters().Timeouts)
}

// No answer is owed before a packet has asked for one.
func TestTimeoutOnlyIfAsked(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpSend, Length: 600})
	s.next()
	s.wantDeadline(0)
	s.next()
	s.next()
	s.wantDeadline(testWait)
}

// Time of the standard: 4.096 us * 2^timeout, 0 = none, 31 max.
func TestTimeoutCodes(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 0, 1: 8192, 14: 67108864, 18: 1073741824, 31: 4096 << 31,
	} {
		s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Timeout = code })
		s.post(Work{Op: OpSend})
		s.next()
		s.wantDeadline(want)
	}
}

// retry_cnt counts timeouts since the last progress; 7 means 7. Each wait is one to four
// times the timeout.
func TestTimeoutRetries(t *testing.T) {
	for retries := range uint8(8) {
		s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Retries = retries })
		s.post(Work{Slot: 1, Op: OpSend})
		s.post(Work{Slot: 2, Op: OpSend})
		waits := []time.Duration{testWait, 2 * testWait, 4 * testWait, 4 * testWait, 4 * testWait, 4 * testWait, 4 * testWait, 4 * testWait}
		rounds := func(want ...string) {
			for _, wait := range waits[:retries] {
				s.advance(wait - 1)
				s.wantSilence()
				s.advance(1)
				s.want(want...)
			}
		}
		s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
		rounds("SEND Only 100 [0] A", "SEND Only 101 [0] A")
		s.step("progress resets the count")
		s.ack(100, roce.Ack)
		s.wantDone(done{1, OK, 0})
		rounds("SEND Only 101 [0] A")
		s.wantDone()
		s.advance(waits[retries])
		s.wantDone(done{2, RetriesExceeded, 0})
		s.wantFlushed()
	}
}

// A long timeout does not grow.
func TestTimeoutGrowsToPatience(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Timeout = 16 })
	s.post(Work{Slot: 1, Op: OpSend})
	s.next()
	for _, want := range []time.Duration{4096 << 16, patience, patience} {
		s.wantDeadline(want)
		s.advance(want)
		s.next()
	}
	s = newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Timeout = 18 })
	s.post(Work{Slot: 1, Op: OpSend})
	s.next()
	for range 3 {
		s.wantDeadline(4096 << 18)
		s.advance(4096 << 18)
		s.next()
	}
}

// Sequence NAKs and implied ones count too.
func TestNAKRetries(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Retries = 1 })
	s.post(Work{Slot: 1, Op: OpSend})
	s.next()
	s.ack(100, roce.NAKSequence)
	s.next()
	s.advance(testWait)
	s.wantDone(done{1, RetriesExceeded, 0})
	s.wantFlushed()

	s = newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Retries = 0 })
	s.postRead(1, 1)
	s.post(Work{Slot: 2, Op: OpSend})
	s.next()
	s.ack(101, roce.Ack)
	s.wantDone(done{1, RetriesExceeded, 0}, done{2, Flushed, 0})
	s.wantFlushed()
}

// A peer that says it is not ready is alive: silence is counted from there.
func TestReceiverNotReadyIsLife(t *testing.T) {
	s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Retries = 1 })
	s.post(Work{Slot: 1, Op: OpSend})
	for range 5 {
		s.want("SEND Only 100 [0] A")
		s.advance(testWait)
		s.want("SEND Only 100 [0] A")
		s.ack(100, roce.RNRNak(1))
		s.advance(10 * time.Microsecond)
	}
	require.Equal(t, ReadyToSend, s.q.State())
}

// After a timeout a sequence NAK is news: the first one may have been lost.
func TestNAKAfterTimeout(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	for s.next() != "" {
	}
	s.ack(100, roce.NAKSequence)
	s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
	s.advance(testWait)
	s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
	s.ack(100, roce.NAKSequence)
	s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
}
