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
	for _, size := range []uint32{0, 3, MaxWork - 1, MaxWork << 1, math.MaxUint32} {
		require.Panics(t, func() { NewSend(size) }, size)
		require.Panics(t, func() { NewReceive(size) }, size)
	}
	for _, size := range []uint32{0, 3, MaxCompletions << 1} {
		require.Panics(t, func() { NewCompletion(size) }, size)
	}
	require.NotPanics(t, func() {
		NewSend(MaxWork)
		NewReceive(1)
		NewCompletion(MaxCompletions)
	})
}

// starts are counter values just before the 16-bit hardware counter, the 24-bit
// record and the 32-bit counter itself wrap.
var starts = []uint32{0, 1<<16 - 3, 1<<24 - 3, math.MaxUint32 - 2}

func TestSend(t *testing.T) {
	for _, start := range starts {
		s := Send{size: 8, posted: start, rung: start, done: start}
		require.EqualValues(t, 8, s.Size())
		require.EqualValues(t, 8, s.Room())
		require.Equal(t, uint16(start), s.Index())
		require.False(t, s.Pending())

		// Two entries of 3 blocks and one of 2 fill the ring.
		require.True(t, s.Post(3))
		require.Equal(t, uint16(start+3), s.Index())
		require.True(t, s.Post(3))
		require.False(t, s.Post(3), "2 blocks are left")
		require.False(t, s.Post(0))
		require.True(t, s.Post(2))
		require.False(t, s.Post(1), "full")
		require.Zero(t, s.Room())
		require.True(t, s.Pending())

		require.False(t, s.Retire(uint16(start), 3), "the hardware cannot know it yet")
		require.Equal(t, (start+8)&0xffff, s.Ring())
		require.False(t, s.Pending())

		require.False(t, s.Retire(uint16(start+3), math.MaxUint32), "wraps to less")
		// The second entry's completion retires the first too.
		require.True(t, s.Retire(uint16(start+3), 3))
		require.EqualValues(t, 6, s.Room())
		require.False(t, s.Retire(uint16(start+3), 3), "again")
		require.False(t, s.Retire(uint16(start), 3), "retired with the second")
		require.False(t, s.Retire(uint16(start+6), 3), "reaches past what was posted")
		require.False(t, s.Retire(uint16(start+6), 0))
		require.False(t, s.Retire(uint16(start+6), math.MaxUint32))
		require.False(t, s.Retire(uint16(start+8), 1), "not posted")
		require.EqualValues(t, 6, s.Room())
		require.True(t, s.Retire(uint16(start+6), 2))
		require.EqualValues(t, 8, s.Room())
	}
}

func TestSendSlot(t *testing.T) {
	s := NewSend(8)
	require.EqualValues(t, 0, s.Slot(0))
	require.EqualValues(t, 7, s.Slot(7))
	require.EqualValues(t, 0, s.Slot(8))
	require.EqualValues(t, 7, s.Slot(math.MaxUint16))
}

func TestSendOfTheLargestSize(t *testing.T) {
	s := NewSend(MaxWork)
	for range 5 { // the 16-bit index wraps twice
		index := s.Index()
		require.True(t, s.Post(MaxWork-1))
		require.True(t, s.Post(1))
		require.Zero(t, s.Room())
		s.Ring()
		require.True(t, s.Retire(index+MaxWork-1, 1))
		require.EqualValues(t, MaxWork, s.Room())
	}
}

func TestReceive(t *testing.T) {
	for _, start := range starts {
		r := Receive{size: 4, posted: start, done: start}
		for i := range uint32(4) {
			require.EqualValues(t, 4-i, r.Room())
			require.Equal(t, (start+i)%4, r.Next())
			require.True(t, r.Post())
			require.Equal(t, (start+i+1)&0xffff, r.Record())
		}
		require.Zero(t, r.Room())
		require.False(t, r.Post(), "full")

		_, ok := r.Retire(uint16(start + 1))
		require.False(t, ok, "not the oldest")
		for i := range uint32(4) {
			slot, ok := r.Retire(uint16(start + i))
			require.True(t, ok)
			require.Equal(t, (start+i)%4, slot)
			require.EqualValues(t, i+1, r.Room())
		}
		_, ok = r.Retire(uint16(start + 4))
		require.False(t, ok, "empty")
	}
}

func TestNoReceiveQueue(t *testing.T) {
	var r Receive
	require.Zero(t, r.Size())
	require.Zero(t, r.Room())
	require.False(t, r.Post())
	_, ok := r.Retire(0)
	require.False(t, ok)
}

func TestReset(t *testing.T) {
	s := NewSend(4)
	s.Post(3)
	s.Ring()
	s.Reset()
	require.Equal(t, NewSend(4), s)

	r := NewReceive(4)
	r.Post()
	r.Reset()
	require.Equal(t, NewReceive(4), r)
}

func TestCompletion(t *testing.T) {
	for _, start := range starts {
		c := Completion{size: 4, shift: 2, count: start}
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
		}
		require.EqualValues(t, 0, c.Ahead(c.Record()))
		require.EqualValues(t, 4, c.Ahead((c.count-4)&0xffffff), "full")
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
