package link

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.enter())
		require.False(t, g.closed())
		require.True(t, g.enter(), "a second call, at the same time")
		g.leave()

		waited := false
		require.True(t, g.shut())
		go func() { g.wait(); waited = true }()
		synctest.Wait()
		require.False(t, waited, "somebody is inside")
		require.True(t, g.closed())
		require.False(t, g.enter())
		require.False(t, g.shut(), "only the first")
		g.leave()
		synctest.Wait()
		require.True(t, waited)
	})
}

func TestGateShutWhenEmpty(t *testing.T) {
	g := newGate()
	require.True(t, g.enter())
	g.leave()
	require.True(t, g.shut())
	g.wait()
	g.wait()
}

// Nobody is inside after shut and wait, however the calls meet.
func TestGateConcurrently(t *testing.T) {
	for range 200 {
		g := newGate()
		var inside atomic.Int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for g.enter() {
					inside.Add(1)
					inside.Add(-1)
					g.leave()
				}
			})
		}
		g.shut()
		g.wait()
		require.Zero(t, inside.Load())
		callers.Wait()
	}
}
