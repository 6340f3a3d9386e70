package conn

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// registrar hands out slabs and counts those that are out.
type registrar struct {
	mu   sync.Mutex
	live int
	made int
	next uint64
	fail error
}

func (r *registrar) register(n int) (Slab, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return Slab{}, r.fail
	}
	r.live++
	r.made++
	r.next += 1 << 32
	freed := false
	return Slab{Mem: make([]byte, n), Addr: r.next, LKey: uint32(r.made), Free: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if freed {
			panic("slab freed twice")
		}
		freed = true
		r.live--
	}}, nil
}

func TestPool(t *testing.T) {
	r := &registrar{}
	p := NewPool(PoolConfig{Register: r.register, Size: 100, SlabSize: 450, Limit: 3 * 450})
	require.Zero(t, p.Stats())

	a, err := p.Get(6) // one slab holds four
	require.NoError(t, err)
	require.Equal(t, PoolStats{Slabs: 2, Registered: 900, InUse: 6}, p.Stats())
	seen := map[uint64]bool{}
	for _, b := range a.Buffers {
		require.Len(t, b.Bytes, 100)
		require.Equal(t, 100, cap(b.Bytes))
		require.Zero(t, b.Addr%(1<<32)%100)
		require.Equal(t, uint32(b.Addr>>32), b.LKey)
		require.False(t, seen[b.Addr])
		seen[b.Addr] = true
	}
	_, err = p.Get(7)
	require.ErrorIs(t, err, ErrPoolLimit)
	require.Equal(t, 6, p.Stats().InUse)

	b, err := p.Get(2)
	require.NoError(t, err)
	require.Equal(t, 8, p.Stats().InUse)
	a.Release()
	a.Release()
	require.Equal(t, 2, p.Stats().InUse)
	b.Release()
	require.Equal(t, PoolStats{Slabs: 1, Registered: 450}, p.Stats(), "one slab is kept")
	require.Equal(t, 1, r.live)

	c, err := p.Get(1)
	require.NoError(t, err)
	p.Close()
	_, err = p.Get(1)
	require.ErrorIs(t, err, errPoolClosed)
	require.Equal(t, 1, r.live)
	c.Release()
	require.Zero(t, r.live)
	require.Zero(t, p.Stats())
}

func TestPoolRegisterFails(t *testing.T) {
	r := &registrar{}
	p := NewPool(PoolConfig{Register: func(n int) (Slab, error) {
		if r.made == 2 {
			return Slab{}, errTest
		}
		return r.register(n)
	}, Size: 10, SlabSize: 10})
	_, err := p.Get(3)
	require.ErrorIs(t, err, errTest)
	require.Zero(t, p.Stats().InUse)
	require.Equal(t, 1, r.live, "what a failed lease registered is given back, but for one")
	p.Close()
	require.Zero(t, r.live)
}

func TestPoolDefaults(t *testing.T) {
	r := &registrar{}
	p := NewPool(PoolConfig{Register: r.register})
	l, err := p.Get(1)
	require.NoError(t, err)
	require.Len(t, l.Buffers[0].Bytes, DefaultSize)
	require.Equal(t, 1<<20, p.Stats().Registered)
	l.Release()
	p.Close()
	require.Zero(t, r.live)
}

func TestPoolChurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &registrar{}
	p := NewPool(PoolConfig{Register: r.register, Size: 8, SlabSize: 64, Limit: 640})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 500 {
				l, err := p.Get(1 + rng.IntN(20))
				if err != nil {
					continue
				}
				for _, b := range l.Buffers {
					b.Bytes[0], b.Bytes[7] = byte(g), byte(g)
				}
				for _, b := range l.Buffers {
					if b.Bytes[0] != byte(g) || b.Bytes[7] != byte(g) {
						t.Error("a buffer is leased twice")
					}
				}
				l.Release()
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.Stats().InUse)
	require.LessOrEqual(t, p.Stats().Slabs, 1)
	p.Close()
	require.Zero(t, r.live)
}
