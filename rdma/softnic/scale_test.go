package softnic

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
)

// A message costs the same however many queue pairs the NIC has. What it costs is counted,
// in virtual time, with one message in 10 us, each of the next queue pair.
func TestCostIsFlat(t *testing.T) {
	costs := func(pairs int) (perMessage map[string]float64) {
		const messages = 20_000
		synctest.Test(t, func(t *testing.T) {
			p := newRawPair(t, Config{Link: LinkMemory, Network: NewNetwork(), Packets: true})
			qs := []*rawQP{p.qa}
			for range pairs - 1 {
				a, b := p.a.createQP(4, 0, p.ca, p.ca), p.b.createQP(4, 0, p.cb, p.cb)
				a.connect(b)
				b.connect(a)
				qs = append(qs, a)
			}
			before, sentBefore := p.na.effort, p.na.Counters().PacketsSent
			for i := range messages {
				q := qs[i%pairs]
				q.post(q.entry(prm.OpWrite, p.ma, 0, 64, p.mb.addr, p.mb.key))
				require.Equal(t, prm.CQERequester, p.ca.sleepFor().Opcode())
				time.Sleep(10 * time.Microsecond)
			}
			synctest.Wait()
			after := p.na.effort
			perMessage = map[string]float64{
				"packets":   float64(p.na.Counters().PacketsSent-sentBefore) / messages,
				"turns":     float64(after.turns-before.turns) / messages,
				"corrected": float64(after.corrected-before.corrected) / messages,
				"alarms":    float64(after.alarms-before.alarms) / messages,
			}
		})
		return perMessage
	}
	one := costs(1)
	for _, pairs := range []int{10, 100, 1000} {
		t.Run(fmt.Sprint(pairs), func(t *testing.T) {
			cost := costs(pairs)
			t.Logf("per message, with one queue pair %v, with %d %v", one, pairs, cost)
			require.Equal(t, one["packets"], cost["packets"])
			require.InDelta(t, one["turns"], cost["turns"], 0.01)
			require.InDelta(t, one["alarms"], cost["alarms"], 0.001, "who has many queue pairs is not woken up more often")
			require.LessOrEqual(t, cost["corrected"], 1.0, "a message moves one deadline")
		})
	}
}
