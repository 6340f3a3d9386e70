package rc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// Works of every kind, of which some messages are passed and the others go by packets,
// come to the same, in the same order.
func TestPassedPair(t *testing.T) {
	for _, imp := range []impairments{{}, {loss: 0.03, duplicate: 0.05, reorder: 0.03}} {
		passed := uint64(0)
		for _, seed := range seeds() {
			t.Run(fmt.Sprintf("loss=%v/seed=%d", imp.loss, seed), func(t *testing.T) {
				n := newNetwork(t, seed, imp, 300)
				n.depth, n.passing = 2, true // with lulls in between
				n.run()
				for _, e := range n.ends {
					passed += e.q.Counters().Passed
				}
			})
		}
		t.Logf("%+v: %d messages passed", imp, passed)
		require.Greater(t, passed, uint64(10*len(seeds())), "messages passed")
	}
}

// passPair is two connected queue pairs with plain hosts.
func passPair(t *testing.T) (a, b *QP, ha, hb *testHost) {
	ha, hb = newTestHost(t), newTestHost(t)
	make := func(h *testHost, psn, peerPSN uint32) *QP {
		q := New(h, Params{})
		require.NoError(t, q.StartReceive(Receiving{PeerQPN: 7, MTU: 256, PSN: peerPSN, RNRTimer: 1}))
		require.NoError(t, q.StartSend(Sending{PSN: psn, Timeout: 14, Retries: 7, RNRRetry: 7}))
		return q
	}
	return make(ha, 0xfffffe, 5), make(hb, 5, 0xfffffe), ha, hb
}

// carryBetween carries packets until there are none.
func carryBetween(t *testing.T, a, b *QP) (packets int) {
	var p [256 + Headroom]byte
	for from, to, idle := a, b, 0; idle < 2; from, to = to, from {
		idle++
		for {
			n := from.Transmit(testNow, p[:])
			if n == 0 {
				break
			}
			packet, err := roce.Parse(p[:n])
			require.NoError(t, err)
			to.Receive(testNow, &packet)
			packets, idle = packets+1, 0
		}
	}
	return packets
}

// pass passes one SEND of a's with immediate data, and reports whether it could.
func passOne(a, b *QP, ha *testHost, slot, n uint32) bool {
	ha.local[slot] = pattern(int(n))
	a.Post(&Work{Slot: slot, Op: OpSendImm, Length: n, Imm: 99})
	w := a.Passable(b)
	return w != nil && a.Pass(testNow, b, ha.local[slot])
}

func TestPass(t *testing.T) {
	a, b, ha, hb := passPair(t)
	for slot, n := range []uint32{0, 1, 256, 1000} { // across the end of the sequence numbers
		hb.post(1000)
		require.True(t, passOne(a, b, ha, uint32(slot), n))
		require.Equal(t, done{uint32(slot), OK, n}, ha.done[slot])
		require.Equal(t, Arrival{Op: OpSendImm, Bytes: n, Imm: 99, HasImm: true}, hb.arrivals[slot])
		require.Equal(t, string(pattern(int(n))), hb.data[slot])
	}
	require.Zero(t, carryBetween(t, a, b), "nothing is owed")
	_, timer := a.Deadline()
	require.False(t, timer)
	hb.post(1000)
	ha.local[9] = pattern(600)
	a.Post(&Work{Slot: 9, Op: OpSend, Length: 600})
	require.Equal(t, 4, carryBetween(t, a, b), "packets go on where messages were passed")
	require.Equal(t, done{9, OK, 600}, ha.done[4])
}

// What is not plain goes by packets.
func TestNotPassable(t *testing.T) {
	t.Run("no receive", func(t *testing.T) {
		a, b, ha, hb := passPair(t)
		require.False(t, passOne(a, b, ha, 0, 10))
		require.Equal(t, 2, carryBetween(t, a, b)) // the message, and that it is to wait
		require.Nil(t, a.Passable(b), "it waits")
		at, ok := a.Deadline()
		require.True(t, ok)
		a.Expire(at)
		hb.post(10)
		require.True(t, a.Pass(at, b, ha.local[0]), "it has waited")
		require.Equal(t, done{0, OK, 10}, ha.done[0])
	})
	t.Run("packets under way", func(t *testing.T) {
		a, b, ha, hb := passPair(t)
		hb.post(10)
		hb.post(10)
		ha.local[0] = pattern(10)
		a.Post(&Work{Op: OpSend, Length: 10})
		var p [256 + Headroom]byte
		require.NotZero(t, a.Transmit(testNow, p[:]))
		require.False(t, passOne(a, b, ha, 1, 10))
	})
	for name, change := range map[string]func(a, b *QP){
		"error":         func(a, b *QP) { b.Fail() },
		"reset":         func(a, b *QP) { b.Reset() },
		"another MTU":   func(a, b *QP) { b.mtu = 512 },
		"open message":  func(a, b *QP) { b.respond.open.kind = roce.KindWrite },
		"lost packet":   func(a, b *QP) { b.respond.expected-- },
		"owed NAK":      func(a, b *QP) { b.respond.verdict.nak(roce.NAKSequence, 0) },
		"not connected": func(a, b *QP) { a.state = ReadyToReceive },
		"unreliable":    func(a, b *QP) { a.service = roce.UnreliableConnection },
	} {
		t.Run(name, func(t *testing.T) {
			a, b, ha, hb := passPair(t)
			hb.post(10)
			change(a, b)
			require.False(t, passOne(a, b, ha, 0, 10))
			require.Empty(t, hb.arrivals)
		})
	}
	t.Run("faulty work", func(t *testing.T) {
		a, b, _, hb := passPair(t)
		hb.post(10)
		a.Post(&Work{Op: OpSend, Fault: LocalQPOperation})
		require.Nil(t, a.Passable(b))
	})
	t.Run("other operation", func(t *testing.T) {
		a, b, _, _ := passPair(t)
		a.Post(&Work{Op: OpWrite, Length: 4})
		require.Nil(t, a.Passable(b))
	})
}

// A message that cannot be delivered ends both queue pairs as it does in packets.
func TestPassRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(ha, hb *testHost)
		length  uint32
		sender  Syndrome
		receive Syndrome
		event   EventKind
	}{
		{"too long", func(ha, hb *testHost) {}, 11, RemoteInvalidRequest, LocalLength, RequestError},
		{"receive", func(ha, hb *testHost) { hb.put = func(uint32) Syndrome { return LocalProtection } }, 10, RemoteOperation, LocalProtection, Fatal},
		{"receive, no bytes", func(ha, hb *testHost) { hb.put = func(uint32) Syndrome { return LocalProtection } }, 0, RemoteOperation, LocalProtection, Fatal},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, ha, hb := passPair(t)
			hb.post(10)
			c.spoil(ha, hb)
			require.True(t, passOne(a, b, ha, 0, c.length))
			require.Equal(t, 1, carryBetween(t, a, b), "the NAK")
			require.Equal(t, []done{{0, c.sender, 0}}, ha.done)
			require.Equal(t, c.receive, hb.arrivals[0].Syndrome)
			require.Equal(t, []EventKind{c.event, FlushReceives}, hb.events)
			require.Equal(t, Error, a.State())
			require.Equal(t, Error, b.State())
		})
	}
	t.Run("sender's memory", func(t *testing.T) {
		a, b, ha, hb := passPair(t)
		hb.post(10)
		fails := func(uint32) Syndrome { return LocalProtection }
		ha.gather, hb.put = fails, fails
		require.True(t, passOne(a, b, ha, 0, 10))
		require.Zero(t, carryBetween(t, a, b))
		require.Equal(t, []done{{0, LocalProtection, 0}}, ha.done)
		require.Equal(t, Error, a.State())
		require.Equal(t, ReadyToSend, b.State(), "it waits for the rest of the message")
		b.Fail()
		require.Equal(t, Flushed, hb.arrivals[0].Syndrome)
	})
}
