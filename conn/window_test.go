package conn

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// growing is a pair whose connections begin with few buffers and lease the rest from pool.
func growing(pool *Pool) setup {
	return setup{sends: 2, receives: Reserve + 2, size: 64, config: func(c *Config) {
		c.MostSends, c.MostReceives, c.PeerMost = 8, 16, 16
		c.Lease = func() (*Lease, error) { return pool.Get(1) }
	}}
}

func growingPool(r *registrar, limit int) *Pool {
	return NewPool(PoolConfig{Register: r.register, Size: 64, SlabSize: 128, Limit: limit})
}

// transfer sends n bytes from a to b, checks them, and returns with all of them read.
func transfer(t *testing.T, a, b *Conn, n int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	wrote := make(chan error, 1)
	go func() { _, err := a.Write(data); wrote <- err }()
	got := make([]byte, n)
	_, err := io.ReadFull(b, got)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.True(t, bytes.Equal(data, got))
}

// A window grows while it is used up quickly, to all that was agreed; when nothing was
// written for a while all that was leased is given back, and it can grow again.
func TestWindowGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registrar{}
		pool := growingPool(r, 0)
		p := newPair(t, growing(pool))
		for round := range 3 {
			transfer(t, p.a, p.b, 10_000, uint64(round))
			require.Equal(t, 16, p.b.Stats().Receives, "the reader's window")
			require.Equal(t, 8, p.a.Stats().Sends, "the writer's buffers")
			require.Equal(t, Reserve+2, p.a.Stats().Receives, "nothing came this way")
			require.Equal(t, 2, p.b.Stats().Sends)
			require.Positive(t, pool.Stats().InUse)
			time.Sleep(time.Minute)
			require.Equal(t, Reserve+2, p.b.Stats().Receives)
			require.Equal(t, 2, p.a.Stats().Sends)
			require.Zero(t, pool.Stats().InUse)
			require.LessOrEqual(t, r.live, 1, "slabs")
			sent := p.a.Stats().MessagesSent
			time.Sleep(10 * time.Second)
			require.LessOrEqual(t, p.a.Stats().MessagesSent, sent+1, "nothing but keep-alive goes on when all is given back")
		}
		for round := range 3 { // both ways at once
			done := make(chan struct{})
			go func() { defer close(done); transfer(t, p.a, p.b, 10_000, uint64(round)) }()
			transfer(t, p.b, p.a, 10_000, 7)
			<-done
			time.Sleep(time.Minute)
			require.Zero(t, pool.Stats().InUse)
		}
	})
}

// Who sends little, or slowly, needs no larger window.
func TestWindowStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, growing(growingPool(&registrar{}, 0)))
		for range 200 {
			transfer(t, p.a, p.b, 64, 1)
			time.Sleep(growWithin)
		}
		for range 200 {
			transfer(t, p.a, p.b, 64, 1)
			transfer(t, p.b, p.a, 64, 1)
		}
		for _, c := range []*Conn{p.a, p.b} {
			require.Equal(t, Reserve+2, c.Stats().Receives)
			require.Equal(t, 2, c.Stats().Sends)
		}
	})
}

// Without memory for more, connections go on with what they have, and ask rarely.
func TestWindowWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registrar{}
		pool := growingPool(r, 4*64)
		p := newPair(t, growing(pool))
		transfer(t, p.a, p.b, 100_000, 1)
		transfer(t, p.b, p.a, 100_000, 2)
		require.Equal(t, 4, pool.Stats().InUse)
		refused := p.a.Stats().LeasesRefused + p.b.Stats().LeasesRefused
		require.Positive(t, refused)
		require.LessOrEqual(t, refused, uint64(2), "time stands still")
		time.Sleep(time.Minute)
		require.Zero(t, pool.Stats().InUse)
	})
}

// Those who borrow messages may hold as many as if all receives had been there from the start.
func TestWindowGrowsForBorrowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, growing(growingPool(&registrar{}, 0)))
		go p.a.Write(make([]byte, 100*64))
		var held []Received
		for range 6 { // fewer than half of 13
			r, err := p.b.Borrow()
			require.NoError(t, err)
			held = append(held, r)
		}
		for range 90 {
			r, err := p.b.Borrow()
			require.NoError(t, err)
			require.NoError(t, r.Release())
		}
		for _, r := range held {
			require.NoError(t, r.Release())
		}
	})
}

// What is reserved for sending grows too, but for the one that is left to others.
func TestReserveGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := growingPool(&registrar{}, 0)
		p := newPair(t, growing(pool))
		var held []Reserved
		for range 7 {
			r, err := p.a.Reserve()
			require.NoError(t, err)
			held = append(held, r)
		}
		_, err := p.a.Reserve()
		require.ErrorIs(t, err, errAllReserved)
		for _, r := range held {
			require.NoError(t, r.Release())
		}
		time.Sleep(time.Minute)
		require.Zero(t, pool.Stats().InUse)
	})
}

// Bytes arrive in order whatever grows and shrinks meanwhile, and nothing stays leased.
func TestWindowRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		r := &registrar{}
		pool := growingPool(r, 24*64)
		s := growing(pool)
		s.seed = seed | 1
		p := newPair(t, s)
		for i := range 300 {
			transfer(t, p.a, p.b, 1+rng.IntN(3000), uint64(i))
			if rng.IntN(3) == 0 {
				transfer(t, p.b, p.a, 1+rng.IntN(3000), uint64(i))
			}
			time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
		}
		transfer(t, p.a, p.b, 3000, 1)
		require.NoError(t, p.a.Close())
		require.NoError(t, p.b.Close())
		<-p.a.Released()
		<-p.b.Released()
		require.Zero(t, pool.Stats().InUse)
	})
}
