package ring

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundUp(t *testing.T) {
	for _, test := range []struct{ n, want uint32 }{
		{0, 1}, {1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1<<15 - 1, 1 << 15}, {1<<15 + 1, 1 << 16},
		{1<<31 - 1, 1 << 31}, {1 << 31, 1 << 31},
	} {
		require.Equal(t, test.want, RoundUp(test.n), test.n)
	}
}

func TestSizesAreChecked(t *testing.T) {
	for _, size := range []uint32{0, 3, MaxCompletions - 1, MaxCompletions << 1, math.MaxUint32} {
		require.Panics(t, func() { NewCompletion(size) }, size)
	}
	for _, size := range []uint32{1, 2, MaxCompletions} {
		c := NewCompletion(size)
		require.Equal(t, size, c.Size())
	}
}

// starts are counter values just before the 16-bit hardware counter, the 24-bit
// record and the 32-bit counter itself wrap.
var starts = []uint32{0, 1<<16 - 3, 1<<24 - 3, math.MaxUint32 - 2}

func TestCompletion(t *testing.T) {
	for _, start := range starts {
		c := Completion{size: 4, count: start}
		for i := range uint32(12) {
			n := start + i
			require.Equal(t, n%4, c.Next())
			owner := uint8(n / 4 % 2)
			require.Equal(t, owner, c.Owner())
			require.True(t, c.Owned(0x20|owner))
			require.True(t, c.Owned(0xe2|owner), "an error, solicited")
			require.False(t, c.Owned(0x20|owner^1), "of the last pass")
			require.False(t, c.Owned(0xf0|owner), "never written")
			require.Equal(t, n&0xffffff, c.Record())
			c.Advance()
			c.Back()
			require.Equal(t, n%4, c.Next())
			c.Advance()
		}
	}
}

func TestCompletionOfOneEntry(t *testing.T) {
	c := NewCompletion(1)
	require.EqualValues(t, 1, c.Size())
	require.True(t, c.Owned(0))
	c.Advance()
	require.EqualValues(t, 0, c.Next())
	require.False(t, c.Owned(0))
	require.True(t, c.Owned(1))
}
