package ud

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
)

const qkey = 0x11111111

var now = time.Unix(1000, 0)

func newQP(t testing.TB, h *testHost) *QP {
	q := New(h, Params{QPN: 0x100, MTU: 256, Depth: 2})
	require.NoError(t, q.StartReceive(qkey))
	require.NoError(t, q.StartSend(0xffffffff))
	return q
}

func transmit(t testing.TB, q *QP) (p roce.Packet, ok bool) {
	b := make([]byte, 256+Headroom)
	n := q.Transmit(now, b)
	if n == 0 {
		return p, false
	}
	p, err := roce.ParseAs(roce.Datagram, b[:n])
	require.NoError(t, err)
	return p, true
}

func TestSend(t *testing.T) {
	h := &testHost{payload: []byte("hello datagram")}
	q := newQP(t, h)
	q.Post(&rc.Work{Slot: 1, Op: rc.OpSend, Length: 14, Solicited: true})
	q.Post(&rc.Work{Slot: 2, Op: rc.OpNop})
	q.Post(&rc.Work{Slot: 3, Op: rc.OpSendImm, Imm: 0xabcd}) // more than the depth
	p, ok := transmit(t, q)
	require.True(t, ok)
	require.Equal(t, roce.Header{Opcode: roce.DatagramSend, Solicited: true, PKey: roce.DefaultPKey, DestQP: 0x201,
		PSN: 0xffffff, QKey: qkey, SourceQP: 0x100}, p.Header())
	require.Equal(t, "hello datagram", string(p.Payload))
	require.Equal(t, []string{"sent 1: ok, 14"}, h.take())
	p, ok = transmit(t, q)
	require.True(t, ok)
	require.Equal(t, roce.Header{Opcode: roce.DatagramSendImmediate, PKey: roce.DefaultPKey, DestQP: 0x203,
		QKey: qkey, SourceQP: 0x100, Imm: 0xabcd}, p.Header())
	require.Empty(t, p.Payload)
	require.Equal(t, []string{"sent 2: ok, 0", "sent 3: ok, 0"}, h.take())
	_, ok = transmit(t, q)
	require.False(t, ok)
	require.EqualValues(t, 2, q.Counters().RequestsSent)
}

// A datagram that leads nowhere is sent as far as its sender can tell.
func TestLost(t *testing.T) {
	h := &testHost{lost: true}
	q := newQP(t, h)
	q.Post(&rc.Work{Op: rc.OpSend})
	_, ok := transmit(t, q)
	require.False(t, ok)
	require.Equal(t, []string{"sent 0: ok, 0"}, h.take())
	require.Zero(t, q.Counters().RequestsSent)
}

func TestSendErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		work   rc.Work
		gather rc.Syndrome
		want   rc.Syndrome
	}{
		"fault":     {rc.Work{Op: rc.OpSend, Fault: rc.LocalLength}, 0, rc.LocalLength},
		"operation": {rc.Work{Op: rc.OpWrite}, 0, rc.LocalQPOperation},
		"too long":  {rc.Work{Op: rc.OpSend, Length: 257}, 0, rc.LocalLength},
		"gather":    {rc.Work{Op: rc.OpSend, Length: 1}, rc.LocalProtection, rc.LocalProtection},
	} {
		h := &testHost{payload: make([]byte, 300), gather: tt.gather}
		q := newQP(t, h)
		q.Post(&tt.work)
		q.Post(&rc.Work{Slot: 1, Op: rc.OpSend})
		_, ok := transmit(t, q)
		require.False(t, ok)
		require.Equal(t, []string{"sent 0: " + tt.want.String() + ", 0", "sent 1: flushed, 0", "event: flush receives"}, h.take(), name)
		require.Equal(t, rc.Error, q.State())
		q.Post(&rc.Work{Slot: 2})
		require.Equal(t, []string{"sent 2: flushed, 0"}, h.take())
	}
}

func arrival(change func(h *roce.Header), payload string) []byte {
	h := roce.Header{Opcode: roce.DatagramSend, DestQP: 0x100, PSN: 77, QKey: qkey, SourceQP: 0x321}
	if change != nil {
		change(&h)
	}
	return h.Append(nil, []byte(payload))
}

func receive(t testing.TB, q *QP, b []byte) {
	p, err := roce.ParseAs(roce.Datagram, b)
	require.NoError(t, err)
	q.Receive(now, &p)
}

func TestReceive(t *testing.T) {
	h := &testHost{capacity: []uint32{HeaderSize + 5, 400, HeaderSize}}
	q := newQP(t, h)
	receive(t, q, arrival(func(h *roce.Header) { h.Solicited = true }, "hello"))
	require.Equal(t, header, string(h.receive[:HeaderSize]))
	receive(t, q, arrival(func(h *roce.Header) { h.Opcode, h.Imm = roce.DatagramSendImmediate, 5 }, "immediate"))
	receive(t, q, arrival(nil, ""))
	require.Equal(t, []string{
		`send from 0x321: "hello" imm false 0x0 solicited true`,
		`send with immediate from 0x321: "immediate" imm true 0x5 solicited false`,
		`send from 0x321: "" imm false 0x0 solicited false`,
	}, h.take())
	receive(t, q, arrival(nil, "nobody waits"))
	require.Empty(t, h.take())
	require.EqualValues(t, 1, q.Counters().OutOfBuffer)
}

// What is not for this queue pair takes no receive.
func TestDropped(t *testing.T) {
	h := &testHost{capacity: []uint32{400}}
	q := newQP(t, h)
	receive(t, q, arrival(func(h *roce.Header) { h.QKey++ }, "key"))
	receive(t, q, arrival(func(h *roce.Header) { h.PKey = 0x8001 }, "partition"))
	receive(t, q, arrival(nil, string(make([]byte, 257))))
	q.Refuse(roce.BTH(arrival(nil, "")))
	require.Equal(t, map[rc.Fate]uint64{rc.DropKey: 1, rc.DropPartition: 1, rc.DropLength: 1, rc.DropMalformed: 1}, dropped(q.Counters()))
	q.SetKey(5)
	receive(t, q, arrival(nil, "another key"))
	require.EqualValues(t, 2, dropped(q.Counters())[rc.DropKey])
	receive(t, q, arrival(func(h *roce.Header) { h.QKey, h.PKey = 5, 0x7fff }, "limited member"))
	require.Len(t, h.take(), 1)
	q.Reset()
	h.capacity = []uint32{400}
	receive(t, q, arrival(nil, "reset"))
	require.Empty(t, h.take())
	require.Equal(t, map[rc.Fate]uint64{rc.DropState: 1}, dropped(q.Counters()))
}

// A receive that cannot take the message ends the queue pair.
func TestReceiveErrors(t *testing.T) {
	for _, tt := range []struct {
		capacity uint32
		header   rc.Syndrome
		want     rc.Syndrome
	}{{HeaderSize + 4, 0, rc.LocalLength}, {0, 0, rc.LocalLength}, {400, rc.LocalProtection, rc.LocalProtection}} {
		h := &testHost{capacity: []uint32{tt.capacity, 400}, header: tt.header}
		q := newQP(t, h)
		q.Post(&rc.Work{Op: rc.OpSend})
		receive(t, q, arrival(nil, "hello"))
		require.Equal(t, []string{"receive failed: " + tt.want.String(), "event: local error", "sent 0: flushed, 0",
			"event: flush receives"}, h.take())
		receive(t, q, arrival(nil, "hello"))
		require.Empty(t, h.take())
	}
}

func TestStates(t *testing.T) {
	h := &testHost{capacity: []uint32{400}}
	q := New(h, Params{MTU: 256})
	require.ErrorIs(t, q.StartSend(0), rc.ErrState)
	q.Post(&rc.Work{Op: rc.OpNop})
	_, ok := transmit(t, q)
	require.False(t, ok)
	require.NoError(t, q.StartReceive(qkey))
	require.ErrorIs(t, q.StartReceive(qkey), rc.ErrState)
	receive(t, q, arrival(nil, "early"))
	require.Len(t, h.take(), 1, "it receives")
	_, ok = transmit(t, q)
	require.False(t, ok, "but does not send")
	require.NoError(t, q.StartSend(0))
	require.Equal(t, rc.ReadyToSend, q.State())
	_, ok = q.Deadline()
	require.False(t, ok)
	q.Expire(now)
	q.Fail()
	require.Equal(t, []string{"sent 0: flushed, 0", "event: flush receives"}, h.take())
	q.Fail()
	require.Empty(t, h.take())
	q.Reset()
	require.Equal(t, rc.Reset, q.State())
	q.Fail()
	require.Equal(t, []string{"event: flush receives"}, h.take())
}

// Whatever arrives, nothing is touched outside the receive.
func FuzzReceive(f *testing.F) {
	f.Add(arrival(nil, "hello"), uint16(400))
	f.Add(arrival(func(h *roce.Header) { h.Opcode = roce.DatagramSendImmediate }, "immediate"), uint16(44))
	f.Fuzz(func(t *testing.T, b []byte, capacity uint16) {
		h := &testHost{capacity: []uint32{uint32(capacity), uint32(capacity)}}
		q := newQP(t, h)
		p, err := roce.ParseAs(roce.Datagram, b)
		switch {
		case err == nil:
			q.Receive(now, &p)
			q.Receive(now, &p)
		case p.BTH != nil:
			q.Refuse(p.BTH)
		}
	})
}

// Nothing is allocated for a datagram, sent or received.
func TestNoAllocations(t *testing.T) {
	h := &quiet{}
	q := New(h, Params{QPN: 0x100, MTU: 256, Depth: 4})
	require.NoError(t, q.StartReceive(qkey))
	require.NoError(t, q.StartSend(0))
	p, err := roce.ParseAs(roce.Datagram, arrival(nil, "hello"))
	require.NoError(t, err)
	b := make([]byte, 256+Headroom)
	w := &rc.Work{Op: rc.OpSend, Length: 100}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		q.Post(w)
		q.Transmit(now, b)
		q.Receive(now, &p)
	}))
	require.Equal(t, 101, h.received)
}

// quiet is a host that remembers nothing but a number.
type quiet struct {
	testHost
	received int
}

func (h *quiet) Gather(*rc.Work, uint32, []byte) rc.Syndrome { return rc.OK }
func (h *quiet) CompleteSend(*rc.Work, rc.Syndrome, uint32)  {}
func (h *quiet) TakeReceive() (uint32, bool)                 { return 400, true }
func (h *quiet) PutHeader() rc.Syndrome                      { return rc.OK }
func (h *quiet) PutReceive(uint32, []byte) rc.Syndrome       { return rc.OK }
func (h *quiet) CompleteReceive(a rc.Arrival, source uint32) { h.received++ }
