package rc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// wantFlushed expects that the queue pair is in error, told the host so once, and
// flushes what is posted from now on.
func (s *script) wantFlushed(events ...EventKind) {
	s.Helper()
	require.Equal(s, Error, s.q.State())
	s.wantEvents(append(events, FlushReceives)...)
	s.wantDeadline(0)
	s.post(Work{Slot: 99, Op: OpSend})
	s.wantDone(done{99, Flushed, 0})
	s.wantSilence()
}

// NAK 0x61, 0x62, 0x63: acknowledges everything before, ends the work with the
// status of the table, and flushes the rest of the queue in order.
func TestFatalNAK(t *testing.T) {
	for nak, want := range map[roce.Syndrome]Syndrome{
		roce.NAKInvalidRequest:  RemoteInvalidRequest,
		roce.NAKRemoteAccess:    RemoteAccess,
		roce.NAKRemoteOperation: RemoteOperation,
	} {
		t.Run(want.String(), func(t *testing.T) {
			s := newScript(t)
			s.post(Work{Slot: 1, Op: OpSend, Length: 5})
			s.post(Work{Slot: 2, Op: OpSend, Length: 600})
			s.post(Work{Slot: 3, Op: OpSend})
			s.post(Work{Slot: 4, Op: OpRead})
			for range 4 {
				s.next()
			}
			s.ack(102, nak)
			s.wantDone(done{1, OK, 5}, done{2, want, 0}, done{3, Flushed, 0}, done{4, Flushed, 0})
			s.wantFlushed()
		})
	}
}

// A NAK of a READ or an atomic is about the work itself, not a lost answer.
func TestFatalNAKOfRead(t *testing.T) {
	for _, op := range []Op{OpRead, OpFetchAdd} {
		s := newScript(t)
		s.post(Work{Slot: 1, Op: op, Length: 5})
		s.next()
		s.ack(100, roce.NAKRemoteAccess)
		s.wantDone(done{1, RemoteAccess, 0})
		s.wantFlushed()
	}
}

// A NAK in the middle of a READ's answer ends it when all before has arrived.
func TestFatalNAKInsideRead(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpRead, Length: 600})
	s.next()
	s.respond(roce.ReadResponseFirst, 100, pattern(256))
	s.ack(101, roce.NAKRemoteAccess)
	s.wantDone(done{1, RemoteAccess, 0})
}

// Reserved syndromes mean nothing.
func TestReservedSyndromes(t *testing.T) {
	s := newScript(t)
	s.post(Work{Op: OpSend})
	s.next()
	for _, v := range []roce.Syndrome{0x40, 0x5f, 0x64, 0x7f, 0x80, 0xff} {
		s.ack(100, v)
	}
	s.wantDone()
	require.Equal(t, map[Fate]uint64{DropSyndrome: 6}, dropped(s.q.Counters()))
	require.Equal(t, ReadyToSend, s.q.State())
}

// A local error in a work completes it after all earlier ones; the rest is flushed.
func TestGatherFails(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend, Length: 600})
	s.post(Work{Slot: 3, Op: OpSend})
	s.host.gather = func(off uint32) Syndrome {
		if off == 256 {
			return LocalProtection
		}
		return OK
	}
	s.want("SEND Only 100 [0] A", "SEND First 101 [256]")
	s.wantDone()
	s.ack(100, roce.Ack)
	s.wantDone(done{1, OK, 0}, done{2, LocalProtection, 0}, done{3, Flushed, 0})
	s.wantFlushed()
}

// An answer that brings the turn of a faulty work does nothing beyond that.
func TestGatherFailsThenNAK(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend, Length: 600})
	s.host.gather = func(off uint32) Syndrome {
		if off == 256 {
			return LocalProtection
		}
		return OK
	}
	s.want("SEND Only 100 [0] A", "SEND First 101 [256]")
	s.ack(101, roce.NAKInvalidRequest)
	s.wantDone(done{1, OK, 0}, done{2, LocalProtection, 0})
	s.wantFlushed()
}

// With nothing before it the work fails at once.
func TestGatherFailsAtHead(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpWrite, Length: 1})
	s.host.gather = func(uint32) Syndrome { return LocalProtection }
	s.wantSilence()
	s.wantDone(done{1, LocalProtection, 0})
	s.wantFlushed()
}

// Works that cannot be carried out end the queue pair in their turn.
func TestFaultyWork(t *testing.T) {
	for _, c := range []struct {
		work Work
		want Syndrome
	}{
		{Work{Op: OpSend, Fault: LocalQPOperation}, LocalQPOperation},
		{Work{Op: OpNop, Fault: LocalProtection}, LocalProtection},
		{Work{Op: 200}, LocalQPOperation},
		{Work{Op: OpSend, Length: MaxMessage + 1}, LocalLength},
		{Work{Op: OpRead, Length: MaxMessage + 1}, LocalLength},
	} {
		s := newScript(t)
		s.q.Post(&Work{Slot: 1, Op: OpSend})
		c.work.Slot = 2
		s.q.Post(&c.work)
		s.want("SEND Only 100 [0] A")
		s.wantDone()
		s.ack(100, roce.Ack)
		s.wantDone(done{1, OK, 0}, done{2, c.want, 0})
		s.wantFlushed()
	}
}

// A faulty work waits for those before it even if these have to be sent again.
func TestFaultyWorkAfterLoss(t *testing.T) {
	s := newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend, Fault: LocalQPOperation})
	s.want("SEND Only 100 [0] A")
	s.ack(100, roce.NAKSequence)
	s.want("SEND Only 100 [0] A")
	s.ack(100, roce.Ack)
	s.wantDone(done{1, OK, 0}, done{2, LocalQPOperation, 0})

	s.step("the acknowledgement may come before they have gone out again")
	s = newScript(t)
	s.post(Work{Slot: 1, Op: OpSend})
	s.post(Work{Slot: 2, Op: OpSend})
	s.post(Work{Slot: 3, Op: OpSend, Fault: LocalQPOperation})
	s.want("SEND Only 100 [0] A", "SEND Only 101 [0] A")
	s.ack(100, roce.NAKSequence)
	s.ack(101, roce.Ack)
	s.wantDone(done{1, OK, 0}, done{2, OK, 0}, done{3, LocalQPOperation, 0})
}

// A READ or an atomic can never go out if the peer keeps no answers.
func TestReadWithoutDepth(t *testing.T) {
	for _, op := range []Op{OpRead, OpCompareSwap} {
		s := newScript(t, func(_ *Params, _ *Receiving, a *Sending) { a.Reads = 0 })
		s.post(Work{Slot: 1, Op: op})
		s.wantSilence()
		s.wantDone(done{1, LocalQPOperation, 0})
		s.wantFlushed()
	}
}

// An answer that cannot be put in local memory ends the work.
func TestScatterFails(t *testing.T) {
	for _, op := range []Op{OpRead, OpFetchAdd} {
		s := newScript(t)
		s.post(Work{Slot: 1, Op: op, Length: 4})
		s.host.scatter = func(uint32) Syndrome { return LocalProtection }
		s.next()
		if op == OpRead {
			s.respond(roce.ReadResponseOnly, 100, []byte("data"))
		} else {
			s.respond(roce.AtomicAcknowledge, 100, nil)
		}
		s.wantDone(done{1, LocalProtection, 0})
		s.wantFlushed()
	}
}

// A response that carries a NAK is none.
func TestResponseWithNAK(t *testing.T) {
	for op, work := range map[roce.Opcode]Op{roce.ReadResponseOnly: OpRead, roce.AtomicAcknowledge: OpFetchAdd} {
		s := newScript(t)
		s.post(Work{Slot: 1, Op: work})
		s.next()
		s.send(roce.Header{Opcode: op, PSN: 100, Syndrome: roce.NAKRemoteAccess}, nil)
		s.wantDone(done{1, BadResponse, 0})
		s.wantFlushed()
	}
}

// READ response longer than expected, or any response that does not fit.
func TestBadResponse(t *testing.T) {
	full := pattern(256)
	for _, c := range []struct {
		name string
		work Work
		op   roce.Opcode
		data []byte
	}{
		{"longer than the READ", Work{Op: OpRead, Length: 5}, roce.ReadResponseOnly, full[:6]},
		{"shorter than the READ", Work{Op: OpRead, Length: 5}, roce.ReadResponseOnly, full[:4]},
		{"First for a short READ", Work{Op: OpRead, Length: 5}, roce.ReadResponseFirst, full},
		{"Only for a long READ", Work{Op: OpRead, Length: 600}, roce.ReadResponseOnly, full},
		{"First not full", Work{Op: OpRead, Length: 600}, roce.ReadResponseFirst, full[:252]},
		{"First more than full", Work{Op: OpRead, Length: 600}, roce.ReadResponseFirst, pattern(300)},
		{"to a SEND", Work{Op: OpSend, Length: 5}, roce.ReadResponseOnly, full[:5]},
		{"to an atomic", Work{Op: OpFetchAdd}, roce.ReadResponseOnly, full[:8]},
		{"atomic to a READ", Work{Op: OpRead, Length: 8}, roce.AtomicAcknowledge, nil},
		{"atomic to a SEND", Work{Op: OpSend, Length: 8}, roce.AtomicAcknowledge, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			c.work.Slot = 1
			s.post(c.work)
			s.post(Work{Slot: 2, Op: OpSend})
			s.next()
			s.respond(c.op, 100, c.data)
			s.wantDone(done{1, BadResponse, 0}, done{2, Flushed, 0})
			s.wantFlushed()
		})
	}
}
