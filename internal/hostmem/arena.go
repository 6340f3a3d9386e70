package hostmem

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// Sizes of an [Arena]: of its mappings, and of the largest piece that is cut from one.
const (
	slabSize = 256 << 10
	maxPiece = 64 << 10
)

// Arena is memory for objects that come and go, such as rings: to map, fault in and above
// all unmap pages of their own costs more than all else that is done for them. Small pieces
// are cut from larger mappings and used again. Pieces share no page. The zero Arena is
// ready for use; it is safe for concurrent use.
type Arena struct {
	mu    sync.Mutex
	sizes [8]pieces // of 1, 2, 4, ... pages
}

// pieces are those of one size.
type pieces struct {
	slabs map[*slab]bool // all there are
	avail []*slab        // those with a free piece
	idle  int            // those all of whose pieces are free
}

// slab is a mapping in equal pieces.
type slab struct {
	arena *Arena
	of    *pieces
	mem   *Memory
	total int
	free  [][]byte
	at    int // index in avail
}

// Alloc is the package's Alloc out of the arena. Large memory is a mapping of its own.
func (a *Arena) Alloc(n int) (*Memory, error) {
	if n <= 0 || n > maxPiece {
		return Alloc(n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	size := bits.Len(uint(n-1) / uint(pageSize))
	of := &a.sizes[size]
	if len(of.avail) == 0 {
		if err := a.grow(of, pageSize<<size); err != nil {
			return nil, err
		}
	}
	s := of.avail[len(of.avail)-1]
	if len(s.free) == s.total {
		of.idle--
	}
	piece := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	if len(s.free) == 0 {
		of.remove(s)
	}
	m := &Memory{bytes: piece[:n:n], slab: s}
	clear(m.bytes)
	m.mapping.Store(&piece)
	return m, nil
}

func (a *Arena) grow(of *pieces, size int) error {
	mem, err := Alloc(max(slabSize, size))
	if err != nil {
		return err
	}
	s := &slab{arena: a, of: of, mem: mem, total: len(mem.Bytes()) / size}
	for b := mem.Bytes(); len(b) >= size; b = b[size:] {
		s.free = append(s.free, b[:size:size])
	}
	if of.slabs == nil {
		of.slabs = map[*slab]bool{}
	}
	of.slabs[s] = true
	of.add(s)
	of.idle++
	return nil
}

// put takes a piece back. If that leaves a second slab of the size unused, it is unmapped.
func (s *slab) put(piece []byte) {
	s.arena.mu.Lock()
	defer s.arena.mu.Unlock()
	of := s.of
	if !of.slabs[s] { // the arena was closed
		return
	}
	if len(s.free) == 0 {
		of.add(s)
	}
	s.free = append(s.free, piece)
	if len(s.free) < s.total {
		return
	}
	if of.idle == 0 || s.mem.Free() != nil {
		of.idle++
		return
	}
	of.remove(s)
	delete(of.slabs, s)
}

func (of *pieces) add(s *slab) {
	s.at = len(of.avail)
	of.avail = append(of.avail, s)
}

func (of *pieces) remove(s *slab) {
	last := len(of.avail) - 1
	of.avail[s.at], of.avail[last].at = of.avail[last], s.at
	of.avail[last] = nil
	of.avail = of.avail[:last]
}

// Close unmaps everything, also pieces that are not free: no device can reach any of them
// and nobody uses them any more. Their Free then does nothing.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for i := range a.sizes {
		for s := range a.sizes[i].slabs {
			errs = append(errs, s.mem.Free())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close arena: %w", err)
	}
	a.sizes = [len(a.sizes)]pieces{}
	return nil
}
