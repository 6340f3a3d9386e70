package ledger

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(s *Sends, id uint64, blocks uint32) (counter uint16) {
	counter = uint16(s.Block())
	s.Open(Entry{ID: id, Op: uint8(id)}, blocks)
	return counter
}

func TestSendsRetireUpToTheCompletion(t *testing.T) {
	s := NewSends(16, 8)
	require.EqualValues(t, 8, s.Room())
	open(s, 1, 1)
	open(s, 2, 2)
	last := open(s, 3, 1)
	s.HandOver()
	require.EqualValues(t, 5, s.Room())

	e, ok := s.Retire(last)
	require.True(t, ok)
	require.Equal(t, Entry{ID: 3, Op: 3}, e)
	require.EqualValues(t, 8, s.Room(), "one completion frees all entries before it")
}

func TestSendsRefuseWhatCannotBeTrue(t *testing.T) {
	s := NewSends(16, 8)
	_, ok := s.Retire(0)
	require.False(t, ok, "nothing was posted")

	first := open(s, 1, 2)
	_, ok = s.Retire(first)
	require.False(t, ok, "posted, but not handed over")

	s.HandOver()
	_, ok = s.Retire(first + 1)
	require.False(t, ok, "the middle of an entry")
	_, ok = s.Retire(first + 2)
	require.False(t, ok, "beyond the last")
	_, ok = s.Retire(first + 16)
	require.False(t, ok, "the right slot of another lap")
	require.EqualValues(t, 7, s.Room(), "nothing was freed")

	_, ok = s.Retire(first)
	require.True(t, ok)
	_, ok = s.Retire(first)
	require.False(t, ok, "completed twice")
}

// Every entry that is handed over can be retired by its own counter and by no
// other, however the ring wraps; the model is a queue.
func TestSendsAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type posted struct {
		counter uint16
		id      uint64
	}
	s := NewSends(32, 8)
	s.next = ^mark(15) // both counters' wrap is near
	s.done.Store(s.next)
	s.HandOver()
	var queue []posted
	handed := 0
	for id := uint64(1); id < 50_000; id++ {
		require.EqualValues(t, 8-len(queue), s.Room())
		switch r.IntN(3) {
		case 0:
			if s.Room() > 0 {
				queue = append(queue, posted{open(s, id, 1+r.Uint32N(4)), id})
			}
		case 1:
			s.HandOver()
			handed = len(queue)
		case 2:
			counter := uint16(r.Uint32())
			if len(queue) > 0 && r.IntN(2) == 0 {
				counter = queue[r.IntN(len(queue))].counter
			}
			e, ok := s.Retire(counter)
			want := -1
			for i, p := range queue[:handed] {
				if p.counter == counter {
					want = i
				}
			}
			require.Equal(t, want >= 0, ok)
			if ok {
				require.Equal(t, queue[want].id, e.ID)
				queue, handed = queue[want+1:], handed-want-1
			}
		}
	}
}

func TestReceivesRetireInOrder(t *testing.T) {
	r := NewReceives(4, 4)
	_, ok := r.Retire(0)
	require.False(t, ok, "nothing was posted")
	for lap := range uint16(5) {
		for i := range uint16(4) {
			require.EqualValues(t, lap*4+i, r.Index())
			r.Open(uint64(lap*4 + i))
		}
		require.EqualValues(t, 0, r.Room())
		for i := range uint16(4) {
			n := lap*4 + i
			_, ok := r.Retire(n + 1)
			require.False(t, ok, "not the oldest")
			id, ok := r.Retire(n)
			require.True(t, ok)
			require.EqualValues(t, n, id)
		}
		require.EqualValues(t, 4, r.Room())
	}
}

// Poster and poller run at once and share nothing but the ledger; the race
// detector watches.
func TestPosterAndPollerConcurrently(t *testing.T) {
	const n = 10_000
	s, r := NewSends(16, 8), NewReceives(8, 8)
	var poster sync.WaitGroup
	poster.Go(func() {
		for id := uint64(0); id < n || r.Index() < n; runtime.Gosched() {
			if id < n && s.Room() > 0 {
				open(s, id, uint32(1+id%2))
				s.HandOver()
				id++
			}
			if i := r.Index(); i < n && r.Room() > 0 {
				r.Open(uint64(i))
			}
		}
	})
	var counter uint16
	for sent, received := uint64(0), uint64(0); sent < n || received < n; runtime.Gosched() {
		if e, ok := s.Retire(counter); ok {
			require.Equal(t, sent, e.ID)
			counter += uint16(1 + sent%2)
			sent++
		}
		if id, ok := r.Retire(uint16(received)); ok {
			require.Equal(t, received, id)
			received++
		}
	}
	poster.Wait()
}
