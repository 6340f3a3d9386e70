package hostmem

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pieces are zeroed, in pages of their own, and used again; what is mapped goes back to one
// slab of each size when they are freed, and to nothing with the arena.
func TestArena(t *testing.T) {
	mappings, bytes := Live()
	var a Arena
	sizes := []int{1, PageSize(), PageSize() + 1, 3 * PageSize(), maxPiece, maxPiece + 1, slabSize}
	var used []*Memory
	for round := range 3 {
		pages := map[uint64]bool{}
		for i := range 200 {
			n := sizes[i%len(sizes)]
			m, err := a.Alloc(n)
			require.NoError(t, err)
			require.Len(t, m.Bytes(), n)
			require.Equal(t, n, cap(m.Bytes()))
			require.Zero(t, m.Addr()%uint64(PageSize()))
			require.Equal(t, make([]byte, n), m.Bytes(), "round %d", round)
			for p := m.Addr(); p < m.Addr()+uint64(n); p += uint64(PageSize()) {
				require.False(t, pages[p], "two share a page")
				pages[p] = true
			}
			for k := range m.Bytes() {
				m.Bytes()[k] = 0xa5
			}
			used = append(used, m)
		}
		rand.Shuffle(len(used), func(i, k int) { used[i], used[k] = used[k], used[i] })
		for _, m := range used {
			require.NoError(t, m.Free())
			require.NoError(t, m.Free(), "once more does nothing")
		}
		used = used[:0]
		_, now := Live()
		require.LessOrEqual(t, now-bytes, int64(len(a.sizes)*slabSize), "one slab of each size is kept")
	}
	m, err := a.Alloc(1)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, m.Free(), "it went with the arena")
	nowMappings, nowBytes := Live()
	require.Equal(t, mappings, nowMappings)
	require.Equal(t, bytes, nowBytes)
	for _, n := range []int{0, -1} {
		_, err := a.Alloc(n)
		require.Error(t, err)
	}
}

// What was freed is what is handed out next: nothing is mapped anew.
func TestArenaReuses(t *testing.T) {
	var a Arena
	defer func() { require.NoError(t, a.Close()) }()
	var first []uint64
	mappings := 0
	for round := range 10 {
		var addrs []uint64
		var used []*Memory
		for range 3 {
			m, err := a.Alloc(2 * PageSize())
			require.NoError(t, err)
			addrs, used = append(addrs, m.Addr()), append(used, m)
		}
		for _, m := range used {
			require.NoError(t, m.Free())
		}
		if round == 0 {
			first = addrs
			mappings, _ = Live()
		}
		require.ElementsMatch(t, first, addrs)
		now, _ := Live()
		require.Equal(t, mappings, now)
	}
}

func TestArenaConcurrent(t *testing.T) {
	mappings, _ := Live()
	var a Arena
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				m, err := a.Alloc(1 + (i%5)*PageSize())
				if err != nil {
					t.Error(err)
					return
				}
				b := m.Bytes()
				b[0], b[len(b)-1] = byte(g), byte(g)
				if b[0] != byte(g) || b[len(b)-1] != byte(g) {
					t.Error("two have the same piece")
				}
				m.Free()
			}
		})
	}
	wg.Wait()
	require.NoError(t, a.Close())
	now, _ := Live()
	require.Equal(t, mappings, now)
}
