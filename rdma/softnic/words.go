package softnic

import (
	"slices"
	"sync"
	"sync/atomic"
)

// foundWords are the words that wakes found in a register since the NIC looked last.
// What a wake finds and what the NIC takes out are one step each, so that a word is
// found by one wake, unless the wake of a store before it found it first.
type foundWords struct {
	mu    sync.Mutex // a leaf
	n     uint32
	words [maxFound]uint64 // the first of them
}

// maxFound is how many are kept. If there are more, all objects are looked at.
const maxFound = 64

// takenWords is what the NIC took.
type takenWords struct {
	n     uint32
	words [maxFound]uint64
	lost  bool // there may have been others
}

// earlier are those before the last, which each ring for themselves, if none was lost.
func (t *takenWords) earlier() []uint64 {
	if t.lost || t.n < 2 {
		return nil
	}
	return t.words[:t.n-1]
}

// find is called by a wake.
func (f *foundWords) find(register *uint64) {
	f.mu.Lock()
	if f.n < maxFound {
		f.words[f.n] = atomic.LoadUint64(register)
	}
	f.n++
	f.mu.Unlock()
}

// take takes what was found, and the last word, which it returns, out of the register. A
// newer word there is left for the wake that is to come.
func (f *foundWords) take(register *uint64, t *takenWords) (last uint64) {
	f.mu.Lock()
	n := min(f.n, maxFound)
	t.n, t.lost = f.n, f.n > maxFound
	copy(t.words[:n], f.words[:n])
	f.n = 0
	if t.n == 0 || t.lost {
		last = atomic.SwapUint64(register, 0) // nobody says, as of a page that is polled
	} else {
		last = t.words[n-1]
		atomic.CompareAndSwapUint64(register, last, 0)
	}
	f.mu.Unlock()
	for i, w := range t.words[:n] {
		t.lost = t.lost || w == 0 || slices.Contains(t.words[:i], w)
	}
	return last
}

// forget takes the words of an object that is going out.
func (f *foundWords) forget(register *uint64, is func(word uint64) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n <= maxFound {
		kept := slices.DeleteFunc(f.words[:f.n], func(w uint64) bool { return w != 0 && is(w) })
		f.n = uint32(len(kept))
	}
	if word := atomic.LoadUint64(register); word != 0 && is(word) {
		atomic.CompareAndSwapUint64(register, word, 0)
	}
}
