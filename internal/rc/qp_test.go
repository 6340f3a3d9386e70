package rc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// Only the transitions of the table exist.
func TestTransitions(t *testing.T) {
	h := newTestHost(t)
	q := New(h, Params{})
	in, out := Receiving{MTU: 256}, Sending{}
	require.Equal(t, Reset, q.State())
	require.ErrorIs(t, q.StartSend(out), ErrState)

	require.NoError(t, q.StartReceive(in))
	require.Equal(t, ReadyToReceive, q.State())
	require.ErrorIs(t, q.StartReceive(in), ErrState)

	require.NoError(t, q.StartSend(out))
	require.Equal(t, ReadyToSend, q.State())
	require.ErrorIs(t, q.StartSend(out), ErrState)
	require.ErrorIs(t, q.StartReceive(in), ErrState)

	q.Fail()
	q.Fail()
	require.Equal(t, Error, q.State())
	require.Equal(t, []EventKind{FlushReceives}, h.events)
	require.ErrorIs(t, q.StartReceive(in), ErrState)
	require.ErrorIs(t, q.StartSend(out), ErrState)

	q.Reset()
	require.Equal(t, Reset, q.State())
	require.NoError(t, q.StartReceive(in))
	q.Fail()
	require.Equal(t, Error, q.State())

	q.Reset()
	q.Post(&Work{Slot: 1, Op: OpSend})
	q.Fail()
	require.Equal(t, Error, q.State())
	require.Equal(t, []done{{1, Flushed, 0}}, h.done)
}

// Attributes out of range are refused, and the state stays.
func TestAttributes(t *testing.T) {
	for _, change := range []func(*Receiving){
		func(a *Receiving) { a.MTU = 0 },
		func(a *Receiving) { a.MTU = 128 },
		func(a *Receiving) { a.MTU = 1500 },
		func(a *Receiving) { a.MTU = 8192 },
		func(a *Receiving) { a.PeerQPN = 1 << 24 },
		func(a *Receiving) { a.PSN = 1 << 24 },
		func(a *Receiving) { a.Reads = -1 },
		func(a *Receiving) { a.Reads = 129 },
		func(a *Receiving) { a.RNRTimer = 32 },
	} {
		q := New(newTestHost(t), Params{})
		a := Receiving{PeerQPN: 1<<24 - 1, PSN: 1<<24 - 1, MTU: 4096, Reads: 128, RNRTimer: 31}
		good := a
		change(&a)
		require.ErrorIs(t, q.StartReceive(a), ErrInvalid)
		require.NoError(t, q.StartReceive(good))
	}
	for _, change := range []func(*Sending){
		func(a *Sending) { a.PSN = 1 << 24 },
		func(a *Sending) { a.Reads = -1 },
		func(a *Sending) { a.Reads = 129 },
		func(a *Sending) { a.Timeout = 32 },
		func(a *Sending) { a.Retries = 8 },
		func(a *Sending) { a.RNRRetry = 8 },
	} {
		q := New(newTestHost(t), Params{})
		require.NoError(t, q.StartReceive(Receiving{MTU: 256}))
		a := Sending{PSN: 1<<24 - 1, Reads: 128, Timeout: 31, Retries: 7, RNRRetry: 7}
		good := a
		change(&a)
		require.ErrorIs(t, q.StartSend(a), ErrInvalid)
		require.NoError(t, q.StartSend(good))
	}
}

// Fail flushes works in order and the receive of an unfinished message; an
// acknowledgement that is owed still goes out, answers to READs do not.
func TestFail(t *testing.T) {
	s := newScript(t)
	s.host.post(1000)
	s.post(Work{Slot: 1, Op: OpSend, Length: 600})
	s.post(Work{Slot: 2, Op: OpSend})
	s.next()
	s.ask(roce.SendFirst, 500, pattern(256))
	s.q.Fail()
	s.wantDone(done{1, Flushed, 0}, done{2, Flushed, 0})
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: Flushed})
	require.EqualError(t, s.host.causes[0], "moved to error by its owner")
	s.want("Acknowledge 500 0x1f msn=0")
	s.wantFlushed()

	s = newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.next()
	s.q.Fail()
	s.wantFlushed()

	s.step("also those that would have gone before the NAK of an invalid request")
	s = newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.send(roce.Header{Opcode: roce.SendMiddle, PSN: 503}, pattern(256))
	require.EqualError(t, s.host.causes[0], "packet does not belong to an open message")
	s.next()
	s.q.Fail()
	s.wantFlushed(RequestError)
}

// The same when the requester fails.
func TestRequesterFailsWithMessageOpen(t *testing.T) {
	s := newScript(t)
	s.host.post(1000)
	s.post(Work{Slot: 1, Op: OpSend})
	s.next()
	s.send(roce.Header{Opcode: roce.SendFirst, PSN: 500}, pattern(256))
	s.ack(100, roce.NAKInvalidRequest)
	s.wantArrivals(Arrival{Op: OpSend, Syndrome: Flushed})
	s.wantDone(done{1, RemoteInvalidRequest, 0})
	s.wantFlushed()
}

// Reset forgets everything without a completion; then all begins anew.
func TestReset(t *testing.T) {
	s := newScript(t)
	s.host.post(1000)
	s.post(Work{Slot: 1, Op: OpSend, Length: 600})
	s.post(Work{Slot: 2, Op: OpRead})
	for s.next() != "" {
	}
	s.send(roce.Header{Opcode: roce.SendFirst, PSN: 500}, pattern(256))
	s.ack(100, roce.RNRNak(1))
	s.q.Reset()
	s.host.taken = false
	s.wantDone()
	s.wantArrivals()
	s.wantDeadline(0)
	s.wantSilence()
	require.Equal(t, Counters{}, s.q.Counters())

	require.NoError(t, s.q.StartReceive(Receiving{PeerQPN: peerQPN, MTU: 1024, PSN: 7}))
	s.step("late answers of the life before are not answers")
	s.ack(100, roce.Ack)
	s.ack(101, roce.NAKInvalidRequest)
	s.respond(roce.ReadResponseOnly, 103, nil)
	s.wantDone()
	require.Equal(t, ReadyToReceive, s.q.State())
	require.NoError(t, s.q.StartSend(Sending{PSN: 9, Timeout: 4}))
	s.host.post(0)
	s.ask(roce.SendOnly, 7, nil)
	s.post(Work{Slot: 3, Op: OpSend, Length: 1000})
	s.want("Acknowledge 7 0x1f msn=1", "SEND Only 9 [1000] A")
	s.wantDeadline(testWait)
	s.ack(9, roce.Ack)
	s.wantDone(done{3, OK, 1000})
}

// A pair reset in the midst of READs does not answer them later.
func TestResetForgetsAnswers(t *testing.T) {
	s := newScript(t)
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.q.Reset()
	s.wantSilence()
	require.NoError(t, s.q.StartReceive(Receiving{PeerQPN: peerQPN, MTU: 256, PSN: 501, Reads: 1, Access: RemoteRead}))
	s.wantSilence()
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 600}, nil)
	s.wantSilence()
}

// Answers and requests take turns while both have something.
func TestTurns(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend, Length: 4 * 256})
	s.request(roce.Header{Opcode: roce.ReadRequest, PSN: 500, Length: 6 * 256}, nil)
	s.want("RDMA READ Response First 500 [256] 0x1f msn=1", "SEND First 100 [256]",
		"RDMA READ Response Middle 501 [256]", "SEND Middle 101 [256]",
		"RDMA READ Response Middle 502 [256]", "SEND Middle 102 [256]",
		"RDMA READ Response Middle 503 [256]", "SEND Last 103 [256] A",
		"RDMA READ Response Middle 504 [256]", "RDMA READ Response Last 505 [256] 0x1f msn=1")
}

// Expire does nothing before its time, or when there is nothing to expire.
func TestExpireEarly(t *testing.T) {
	s := newScript(t)
	s.advance(time.Hour)
	s.post(Work{Op: OpSend})
	s.next()
	s.q.Expire(s.now.Add(testWait - 1))
	s.wantSilence()
	require.Zero(t, s.q.Counters().Timeouts)
}

// Packets from BTH to pad never need more than Headroom beyond the payload.
func TestHeadroom(t *testing.T) {
	for op := range 256 {
		op := roce.Opcode(op)
		require.LessOrEqual(t, roce.Size(op, 4096)+roce.ICRCSize, 4096+Headroom, op)
	}
}

// A message of the greatest length keeps old and new sequence numbers apart.
func TestLongestMessage(t *testing.T) {
	require.Less(t, roce.Packets(MaxMessage, 256)+maxWindow, uint32(roce.PSNWindow))
}

func TestStrings(t *testing.T) {
	require.Equal(t, "fetch and add", OpFetchAdd.String())
	require.Equal(t, "unknown operation", Op(99).String())
	require.Equal(t, "ready to send", ReadyToSend.String())
	require.Equal(t, "unknown state", State(9).String())
	require.Equal(t, "unknown event", EventKind(9).String())
	require.Equal(t, "syndrome 0x99", Syndrome(0x99).String())
	seen := map[string]bool{}
	add := func(s string) {
		require.False(t, seen[s], s)
		seen[s] = true
	}
	for _, s := range []Syndrome{OK, LocalLength, LocalQPOperation, LocalProtection, Flushed, BadResponse, LocalAccess,
		RemoteInvalidRequest, RemoteAccess, RemoteOperation, RetriesExceeded, NotReadyRetriesExceeded} {
		add(s.String())
	}
	for _, s := range []State{Reset, ReadyToReceive, ReadyToSend, Error} {
		add(s.String())
	}
	for _, e := range []EventKind{Established, RequestError, AccessError, Fatal, FlushReceives} {
		add(e.String())
	}
}
