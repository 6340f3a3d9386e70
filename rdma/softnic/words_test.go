package softnic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
)

// What wakes find tells whether a store may have been lost.
func TestFoundWords(t *testing.T) {
	many := make([]uint64, maxFound+1)
	for i := range many {
		many[i] = uint64(i) + 1
	}
	for name, c := range map[string]struct {
		stores  []uint64 // each before its wake; 0 is a wake alone
		last    uint64
		earlier []uint64
		lost    bool
	}{
		"one":                {[]uint64{7}, 7, nil, false},
		"several":            {[]uint64{7, 8, 9}, 9, []uint64{7, 8}, false},
		"as many as fit":     {many[:maxFound], maxFound, many[:maxFound-1], false},
		"more than fit":      {many, maxFound + 1, nil, true},
		"wake of none":       {[]uint64{0}, 0, nil, true},
		"found by two wakes": {[]uint64{7, 8, 8}, 8, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var f foundWords
			var taken takenWords
			var register uint64
			for _, w := range c.stores {
				if w != 0 {
					register = w
				}
				f.find(&register)
			}
			require.Equal(t, c.last, f.take(&register, &taken))
			require.Equal(t, c.lost, taken.lost)
			require.Equal(t, c.earlier, taken.earlier())
			require.EqualValues(t, len(c.stores), taken.n)
			require.Zero(t, register)
		})
	}
	t.Run("a newer word waits for its wake", func(t *testing.T) {
		var f foundWords
		var taken takenWords
		register := uint64(7)
		f.find(&register)
		register = 8
		require.EqualValues(t, 7, f.take(&register, &taken))
		require.False(t, taken.lost)
		f.find(&register)
		require.EqualValues(t, 8, f.take(&register, &taken))
		require.False(t, taken.lost)
	})
	t.Run("what is forgotten rings no more", func(t *testing.T) {
		var f foundWords
		var taken takenWords
		var register uint64
		for _, w := range []uint64{7, 8, 7} {
			register = w
			f.find(&register)
		}
		f.forget(&register, func(w uint64) bool { return w == 7 })
		require.Zero(t, register)
		require.EqualValues(t, 8, f.take(&register, &taken))
		require.EqualValues(t, 1, taken.n)
	})
}

// Doorbells of many queue pairs that the NIC answers at once cost what each costs: those
// that did not ring are not looked at.
func TestManyDoorbells(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(256, false)
	var pairs []*rawQP
	for range 20 {
		q := r.createQP(16, 0, cq, cq)
		q.connect(q)
		pairs = append(pairs, q)
	}
	n.lock()
	for _, q := range pairs[:10] {
		q.half = 0
		q.nop(prm.CQEUpdate)
	}
	n.answerDoorbells()
	for i, q := range pairs {
		require.Equal(t, i < 10, n.qps[q.qpn].rung, "queue pair %d", i)
	}
	n.unlock()
	for range 10 {
		require.Equal(t, prm.CQERequester, cq.wait().Opcode())
	}
	require.Zero(t, n.Counters().BadDoorbells)
}
