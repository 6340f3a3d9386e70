package hostmem

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{1, 64, PageSize() - 1, PageSize(), PageSize() + 1, 1 << 20} {
		m, err := Alloc(n)
		require.NoError(t, err)
		b := m.Bytes()
		require.Len(t, b, n)
		require.Equal(t, n, cap(b), "append must not reach the rest of the page")
		require.Zero(t, m.Addr()%uint64(PageSize()))
		require.Equal(t, AddrOf(b), m.Addr())
		require.Equal(t, make([]byte, n), b)
		b[0], b[n-1] = 1, 2
		require.NoError(t, m.Free())
	}
}

func TestAllocRefusesSizes(t *testing.T) {
	mappings, size := Live()
	for _, n := range []int{0, -1, math.MinInt, math.MaxInt, math.MaxInt - PageSize()} {
		_, err := Alloc(n)
		require.Error(t, err, n)
		require.ErrorContains(t, err, "allocate host memory")
	}
	nowMappings, nowSize := Live()
	require.Equal(t, mappings, nowMappings)
	require.Equal(t, size, nowSize)
}

func TestLive(t *testing.T) {
	mappings, size := Live()
	m, err := Alloc(PageSize() + 1)
	require.NoError(t, err)
	nowMappings, nowSize := Live()
	require.Equal(t, mappings+1, nowMappings)
	require.Equal(t, size+2*int64(PageSize()), nowSize, "whole pages")

	require.NoError(t, m.Free())
	nowMappings, nowSize = Live()
	require.Equal(t, mappings, nowMappings)
	require.Equal(t, size, nowSize)
}

func TestFreeIsIdempotent(t *testing.T) {
	mappings, _ := Live()
	m, err := Alloc(1)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := m.Free(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	nowMappings, _ := Live()
	require.Equal(t, mappings, nowMappings)
}

func TestView(t *testing.T) {
	m, err := Alloc(3 * PageSize())
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	v := View(m.Addr()+100, PageSize())
	require.Len(t, v, PageSize())
	require.Equal(t, PageSize(), cap(v))
	v[0] = 7
	v[len(v)-1] = 8
	require.EqualValues(t, 7, m.Bytes()[100])
	require.EqualValues(t, 8, m.Bytes()[99+PageSize()])
	require.Empty(t, View(m.Addr(), 0))
}

func TestViewRefusesRanges(t *testing.T) {
	require.Panics(t, func() { View(1<<16, -1) })
	require.Panics(t, func() { View(0, 1) })
	require.Panics(t, func() { View(math.MaxUint64, 2) })
	require.Panics(t, func() { View(math.MaxUint64-4, 8) })
}

func TestMapped(t *testing.T) {
	m, err := Alloc(600 * PageSize()) // more pages than one question is about
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	size := uint64(600 * PageSize())
	require.True(t, Mapped(m.Addr(), size))
	require.True(t, Mapped(m.Addr()+1, size-1))
	require.True(t, Mapped(m.Addr()+size-1, 1))
	require.True(t, Mapped(m.Addr(), 0))

	require.False(t, Mapped(0, 1))
	require.False(t, Mapped(0, 0))
	require.False(t, Mapped(math.MaxUint64, 2))
	require.False(t, Mapped(math.MaxUint64-1, 4))
	require.False(t, Mapped(1, math.MaxUint64))
}

func TestWords(t *testing.T) {
	m, err := Alloc(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	b := m.Bytes()
	copy(b[8:], []byte{1, 1, 1, 1, 2, 2, 2, 2})
	require.EqualValues(t, 0x01010101, *Word32(b[8:]))
	require.EqualValues(t, 0x02020202, *Word32(b[12:16]))
	*Word64(b[8:16]) = 0x0303030303030303
	require.Equal(t, []byte{3, 3, 3, 3, 3, 3, 3, 3, 0}, b[8:17])

	require.Panics(t, func() { Word32(b[1:]) })
	require.Panics(t, func() { Word32(b[:3]) })
	require.Panics(t, func() { Word32(nil) })
	require.Panics(t, func() { Word64(b[4:]) })
	require.Panics(t, func() { Word64(b[:7]) })
	require.Panics(t, func() { Word64(nil) })
}

func TestSplit(t *testing.T) {
	m, err := Alloc(130)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	b := m.Bytes()[:130]
	b[63], b[64] = 1, 2
	blocks := Split[[64]byte](b)
	require.Len(t, blocks, 2)
	require.Equal(t, []byte{1, 2}, []byte{blocks[0][63], blocks[1][0]})
	units := Split[[2]uint64](b)
	require.Len(t, units, 8)
	units[7][1] = 0x0303030303030303
	require.Equal(t, []byte{0, 3, 3, 3, 3, 3, 3, 3, 3}, b[119:128])
	require.Empty(t, Split[[64]byte](nil))
	require.Panics(t, func() { Split[[64]byte](b[4:]) })
}

func TestHotPathAllocatesNothing(t *testing.T) {
	m, err := Alloc(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b := View(m.Addr(), 64)
		*Word32(b) = 1
		*Word64(b[8:]) = AddrOf(b)
		Mapped(m.Addr(), 64)
	}))
}
