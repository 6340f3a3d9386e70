package softnic

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
)

// look is how often sleepFor looks.
const look = 100 * time.Microsecond

// A peer that is silent for good ends a work when the specification's timer has run out
// once for each attempt (section 9.7.6.1.3), the first one and as many as the retry count
// says: one to four times 4.096 us * 2^timeout. The works behind it are flushed.
func TestTimeToRetriesExceeded(t *testing.T) {
	for _, timeout := range []uint8{8, 10, 14} {
		for _, retries := range []uint8{0, 1, 3, 7} {
			t.Run(fmt.Sprintf("timeout %d, %d retries", timeout, retries), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newRawPair(t, private())
					p.reconnect(t, func(rts *uapi.ModifyQP) { rts.Timeout, rts.RetryCnt = timeout, retries })
					p.nb.SetPort(false)
					began := time.Now()
					for range 2 {
						p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
					}
					require.Equal(t, prm.SyndromeRetryExceeded, p.ca.sleepFor().Syndrome())
					times := []time.Duration{0: 1, 1: 1 + 2, 3: 1 + 2 + 4*2, 7: 1 + 2 + 4*6}[retries]
					require.InDelta(t, times*(4096*time.Nanosecond<<timeout), time.Since(began), float64(look))
					require.Equal(t, prm.SyndromeFlushed, p.ca.sleepFor().Syndrome())
					require.EqualValues(t, retries+1, p.na.Counters().Timeouts)
				})
			})
		}
	}
}

// A peer that never has a receive ends a work when it has asked for its wait as often as
// the RNR retry count says, and once more.
func TestTimeToNotReadyRetriesExceeded(t *testing.T) {
	for _, timer := range []uint8{1, 12, 20} {
		for _, retries := range []uint8{0, 1, 6} {
			t.Run(fmt.Sprintf("timer %d, %d retries", timer, retries), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newRawPair(t, private())
					p.reconnect(t, func(rts *uapi.ModifyQP) { rts.RnrRetry = retries })
					p.nb.lock()
					p.nb.qps[p.qb.qpn].connection.SetRNRTimer(timer)
					p.nb.unlock()
					began := time.Now()
					p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
					require.Equal(t, prm.SyndromeRNRRetryExceeded, p.ca.sleepFor().Syndrome())
					require.InDelta(t, time.Duration(retries)*roce.RNRTimer(timer), time.Since(began), float64(look))
					require.EqualValues(t, retries+1, p.na.Counters().RNRNaksReceived)
				})
			})
		}
	}
}

// reconnect connects the pair anew, with attributes of the requester that change has its
// way with.
func (p *rawPair) reconnect(t *testing.T, change func(rts *uapi.ModifyQP)) {
	for _, q := range []*rawQP{p.qa, p.qb} {
		peer := p.qb
		if q == p.qb {
			peer = p.qa
		}
		rts := q.toRTS()
		change(&rts)
		for _, m := range []uapi.ModifyQP{q.to(uapi.QPReset), q.toInit(), q.toRTR(peer), rts} {
			require.NoError(t, q.r.modify(m))
		}
	}
}
