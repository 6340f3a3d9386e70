package rc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// The scripted peer's side of things.
const (
	testMTU  = 256
	peerQPN  = 0x123456
	sendPSN  = 100 // first of the queue pair under test
	recvPSN  = 500 // first of the peer
	testKey  = 0x77
	testVA   = 0x10000
	testWait = 4096 * time.Nanosecond << 4 // timeout code 4
)

// script is a queue pair under test with a peer that says what the test says.
// Every expectation is about the next thing the queue pair does.
type script struct {
	*testing.T
	q    *QP
	host *testHost
	now  time.Time
	buf  [4096 + Headroom]byte
}

// newScript makes a connected pair. The functions change its attributes first.
func newScript(t *testing.T, change ...func(*Params, *Receiving, *Sending)) *script {
	p := Params{Depth: 4}
	in := Receiving{PeerQPN: peerQPN, MTU: testMTU, PSN: recvPSN, Reads: 4, RNRTimer: 12,
		Access: RemoteWrite | RemoteRead | RemoteAtomic}
	out := Sending{PSN: sendPSN, Reads: 4, Timeout: 4, Retries: 7, RNRRetry: 7}
	for _, f := range change {
		f(&p, &in, &out)
	}
	s := &script{T: t, host: newTestHost(t), now: time.Unix(1000, 0)}
	s.q = New(s.host, p)
	require.NoError(t, s.q.StartReceive(in))
	require.NoError(t, s.q.StartSend(out))
	s.host.regions[testKey] = &region{testVA, pattern(4096), RemoteWrite | RemoteRead | RemoteAtomic}
	return s
}

// pattern is n bytes that differ from packet to packet.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// step says what the test is about to show.
func (s *script) step(text string) { s.Log("#", text) }

// post posts a work; its local memory is n bytes of pattern.
func (s *script) post(w Work) {
	s.host.local[w.Slot] = pattern(int(max(w.Length, 8)))
	s.q.Post(&w)
}

// send lets a packet of the peer arrive.
func (s *script) send(h roce.Header, data []byte) {
	s.Helper()
	p, err := roce.ParseAs(s.q.service, h.Append(nil, data))
	require.NoError(s, err)
	s.q.Receive(s.now, &p)
}

// ack lets the peer answer packet psn with an AETH.
func (s *script) ack(psn uint32, verdict roce.Syndrome) {
	s.Helper()
	s.send(roce.Header{Opcode: roce.Acknowledge, PSN: psn, Syndrome: verdict}, nil)
}

// respond lets the peer send a READ response.
func (s *script) respond(op roce.Opcode, psn uint32, data []byte) {
	s.Helper()
	s.send(roce.Header{Opcode: op, PSN: psn, Syndrome: roce.Ack}, data)
}

// next pulls one packet and returns it in words; empty if there is none.
func (s *script) next() string {
	s.Helper()
	n := s.q.Transmit(s.now, s.buf[:])
	if n == 0 {
		return ""
	}
	p, err := roce.ParseAs(s.q.service, s.buf[:n])
	require.NoError(s, err)
	h := p.Header()
	require.EqualValues(s, peerQPN, h.DestQP)
	require.EqualValues(s, roce.DefaultPKey, h.PKey)
	return words(h, p.Info, len(p.Payload))
}

// words writes a packet as the tests expect it: opcode, sequence number, then
// what is there and not usual.
func words(h roce.Header, i roce.Info, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %d", h.Opcode, h.PSN)
	if i.Payload != roce.NoPayload {
		fmt.Fprintf(&b, " [%d]", n)
	}
	if i.Headers&roce.HasRETH != 0 {
		fmt.Fprintf(&b, " va=%#x key=%#x len=%d", h.VA, h.RKey, h.Length)
	}
	if i.Headers&roce.HasAtomicETH != 0 {
		fmt.Fprintf(&b, " va=%#x key=%#x swapadd=%d compare=%d", h.VA, h.RKey, h.SwapAdd, h.Compare)
	}
	if i.Headers&roce.HasAETH != 0 {
		fmt.Fprintf(&b, " %#02x msn=%d", uint8(h.Syndrome), h.MSN)
	}
	if i.Headers&roce.HasAtomicAckETH != 0 {
		fmt.Fprintf(&b, " old=%d", h.Original)
	}
	if i.Headers&roce.HasImmDt != 0 {
		fmt.Fprintf(&b, " imm=%d", h.Imm)
	}
	if i.Headers&roce.HasIETH != 0 {
		fmt.Fprintf(&b, " inv=%#x", h.Invalidate)
	}
	if h.Solicited {
		b.WriteString(" SE")
	}
	if h.AckRequested {
		b.WriteString(" A")
	}
	return b.String()
}

// want expects exactly these packets now, and then silence.
func (s *script) want(packets ...string) {
	s.Helper()
	var got []string
	for p := s.next(); p != ""; p = s.next() {
		got = append(got, p)
		require.Less(s, len(got), 1000, "no end of packets")
	}
	require.Equal(s, packets, got)
}

// wantSilence expects no packet.
func (s *script) wantSilence() {
	s.Helper()
	require.Empty(s, s.next())
}

// wantDone expects these completions of works since the last call.
func (s *script) wantDone(want ...done) {
	s.Helper()
	require.Equal(s, want, s.host.done)
	s.host.done = nil
}

// wantArrivals expects these completions of receives since the last call.
func (s *script) wantArrivals(want ...Arrival) {
	s.Helper()
	require.Equal(s, want, s.host.arrivals)
	s.host.arrivals, s.host.data = nil, nil
}

// wantEvents expects these events since the last call.
func (s *script) wantEvents(want ...EventKind) {
	s.Helper()
	require.Equal(s, want, s.host.events)
	s.host.events = nil
}

// advance lets time pass and does what is due then.
func (s *script) advance(d time.Duration) {
	s.now = s.now.Add(d)
	s.q.Expire(s.now)
}

// wantDeadline expects the next deadline d from now; 0 for none.
func (s *script) wantDeadline(d time.Duration) {
	s.Helper()
	at, ok := s.q.Deadline()
	if d == 0 {
		require.False(s, ok, "deadline in %v", at.Sub(s.now))
		return
	}
	require.True(s, ok)
	require.Equal(s, d, at.Sub(s.now))
}

// dropped is the fates of the packets that were dropped.
func dropped(c Counters) map[Fate]uint64 {
	m := map[Fate]uint64{}
	for f, n := range c.Fates {
		if Fate(f) != Accepted && n > 0 {
			m[Fate(f)] = n
		}
	}
	return m
}
