package ledger

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// list is the links as the NIC reads them.
type list []uint16

func newList(entries uint32) (*Shared, list) {
	l := make(list, entries)
	return NewShared(entries, func(entry, next uint16) { l[entry] = next }), l
}

func (s *Shared) post(id uint64) (entry uint16) {
	s.Lock()
	defer s.Unlock()
	entry = s.Head()
	s.Open(id)
	return entry
}

// A NIC that follows the links finds the receives in the order in which they were posted, in
// whatever order they complete.
func TestSharedAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, entries := range []uint32{2, 4, 16} {
		s, links := newList(entries)
		require.EqualValues(t, entries-1, s.Capacity())
		var waiting []uint64         // posted, oldest first
		taken := map[uint16]uint64{} // by the NIC, not completed
		head := uint16(0)            // of the NIC
		for id := uint64(1); id < 20_000; id++ {
			require.EqualValues(t, int(entries)-1-len(waiting)-len(taken), s.Room())
			switch r.IntN(3) {
			case 0:
				if s.Room() > 0 {
					s.post(id)
					waiting = append(waiting, id)
				}
			case 1:
				if len(waiting) > 0 {
					require.NotContains(t, taken, head)
					taken[head] = waiting[0]
					waiting, head = waiting[1:], links[head]
				}
			case 2:
				for entry, id := range taken { // any
					got, ok := s.Retire(entry)
					require.True(t, ok)
					require.Equal(t, id, got)
					delete(taken, entry)
					_, ok = s.Retire(entry)
					require.False(t, ok, "completed twice")
					break
				}
			}
		}
	}
}

func TestSharedRefusesWhatCannotBeTrue(t *testing.T) {
	s, _ := newList(4)
	for _, entry := range []uint16{0, 3, 4, 0xffff} {
		_, ok := s.Retire(entry)
		require.False(t, ok, "nothing is posted at %d", entry)
	}
	require.Zero(t, s.post(7))
	for _, entry := range []uint16{1, 4, 0x8000} {
		_, ok := s.Retire(entry)
		require.False(t, ok, "the receive is not at %d", entry)
	}
	require.EqualValues(t, 2, s.Room(), "nothing was freed")
}

// Posters and pollers run at once; the race detector watches.
func TestSharedConcurrently(t *testing.T) {
	const n, posters = 5_000, 2
	s, _ := newList(8)
	posted := make(chan uint16, 8)
	var wg sync.WaitGroup
	for range posters {
		wg.Go(func() {
			for i := 0; i < n; runtime.Gosched() {
				s.Lock()
				ok := s.Room() > 0
				entry := s.Head()
				if ok {
					s.Open(uint64(entry))
					i++
				}
				s.Unlock()
				if ok {
					posted <- entry
				}
			}
		})
	}
	for range posters {
		wg.Go(func() {
			for range n {
				entry := <-posted
				if id, ok := s.Retire(entry); !ok || id != uint64(entry) {
					t.Errorf("entry %d: %d, %v", entry, id, ok)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 7, s.Room())
}
