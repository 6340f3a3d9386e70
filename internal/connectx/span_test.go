package connectx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An object's pages are in any order, and what is not in them is not the object's.
func TestSpan(t *testing.T) {
	mem := &ram{b: make([]byte, 8*pageSize)}
	s := &span{guest: mem, pages: []uint64{3 * pageSize, pageSize, 100 * pageSize}, shift: 12}
	require.NoError(t, s.Write(pageSize-2, []byte("abcd")))
	require.Equal(t, "ab", string(mem.b[4*pageSize-2:4*pageSize]))
	require.Equal(t, "cd", string(mem.b[pageSize:pageSize+2]))
	got := make([]byte, 4)
	require.NoError(t, s.Read(pageSize-2, got))
	require.Equal(t, "abcd", string(got))
	require.True(t, s.Store32(pageSize+8, 7))
	v, ok := mem.Load32(pageSize + 8)
	require.True(t, ok)
	require.Equal(t, uint32(7), v)
	old, ok := s.Add64(8, 5)
	require.True(t, ok)
	require.Zero(t, old)
	old, ok = s.CompareSwap64(8, 5, 6)
	require.True(t, ok)
	require.Equal(t, uint64(5), old)

	// A doorbell record is anywhere in the guest's memory.
	require.True(t, s.Store32(recordBit|64, 9))
	v, ok = s.Load32(recordBit | 64)
	require.True(t, ok)
	require.Equal(t, uint32(9), v)

	for name, addr := range map[string]uint64{
		"a page that is no memory": 2 * pageSize, "behind the pages": 3 * pageSize, "over their end": 3*pageSize - 2,
		"far behind": recordBit - 8, "record in no memory": recordBit | 1<<40,
	} {
		require.Error(t, s.Read(addr, got), name)
		require.Error(t, s.Write(addr, got), name)
		require.False(t, s.Pin(addr, 4, true), name)
		_, ok := s.Load32(addr &^ 3)
		require.False(t, ok, name)
		_, ok = s.Add64(addr&^7, 1)
		require.False(t, ok, name)
		_, ok = s.CompareSwap64(addr&^7, 0, 1)
		require.False(t, ok, name)
		require.False(t, s.Store32(addr&^3, 1), name)
	}
	require.True(t, s.Pin(0, 2*pageSize, true))
	require.False(t, s.Pin(0, 2*pageSize+1, true))
}
