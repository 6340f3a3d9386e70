package conn

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// slabSize is the least memory that a Pool registers at once: registering is slow and
// NICs hold a limited number of regions.
const slabSize = 2 << 20

// Slab is registered memory that a Pool cuts into buffers.
type Slab struct {
	Bytes []byte
	Addr  uint64
	LKey  uint32
	Close func() error // gives the memory back
}

// Pool lends message buffers to the connections of a device. They share slabs of
// registered memory; a slab that nobody uses any more is given back, but for one that
// is kept for the next connection. Its methods are safe for concurrent use.
type Pool struct {
	register func(n int) (Slab, error)

	mu    sync.Mutex
	slabs []*slab
	errs  []error // of giving slabs back
}

// slab is a Slab cut into lots of one size.
type slab struct {
	Slab
	lot  int   // bytes of a lot
	free []int // indices of lots nobody has
	lots int
}

// Lot is buffers that belong to one connection.
type Lot struct {
	Buffers []Buffer

	pool  *Pool
	slab  *slab
	index int
}

// ErrPoolClosed is returned by Get of a closed Pool.
var ErrPoolClosed = errors.New("buffer pool is closed")

// NewPool returns an empty pool. register makes memory for at least n bytes; it is
// called with the pool's lock held.
func NewPool(register func(n int) (Slab, error)) *Pool {
	return &Pool{register: register}
}

// Get lends n buffers of size bytes each, all of one slab. Their content is whatever
// an earlier connection of this process left there.
func (p *Pool) Get(n, size int) (*Lot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.register == nil {
		return nil, ErrPoolClosed
	}
	s, err := p.slabFor(n * size)
	if err != nil {
		return nil, fmt.Errorf("%d buffers of %d bytes: %w", n, size, err)
	}
	last := len(s.free) - 1
	l := &Lot{pool: p, slab: s, index: s.free[last], Buffers: make([]Buffer, n)}
	s.free = s.free[:last]
	for i := range l.Buffers {
		off := l.index*s.lot + i*size
		l.Buffers[i] = Buffer{Bytes: s.Bytes[off : off+size : off+size], Addr: s.Addr + uint64(off), LKey: s.LKey}
	}
	return l, nil
}

// slabFor returns a slab with a free lot of that size, making one if need be.
func (p *Pool) slabFor(lot int) (*slab, error) {
	for _, s := range p.slabs {
		if s.lot == lot && len(s.free) > 0 {
			return s, nil
		}
	}
	lots := max(1, slabSize/lot)
	memory, err := p.register(lots * lot)
	if err != nil {
		return nil, err
	}
	s := &slab{Slab: memory, lot: lot, lots: lots}
	for i := range lots {
		s.free = append(s.free, lots-1-i)
	}
	p.slabs = append(p.slabs, s)
	return s, nil
}

// Release gives the lot back. The NIC must be done with its buffers.
func (l *Lot) Release() {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	l.slab.free = append(l.slab.free, l.index)
	l.Buffers = nil
	p.trim()
}

// trim gives back unused slabs but the one that was used last.
func (p *Pool) trim() {
	spare := p.register != nil
	p.slabs = slices.DeleteFunc(p.slabs, func(s *slab) bool {
		switch {
		case len(s.free) < s.lots:
			return false
		case spare:
			spare = false
			return false
		}
		if err := s.Close(); err != nil {
			p.errs = append(p.errs, err)
		}
		return true
	})
}

// Close gives back all slabs, those in use when the last of their lots is released. It
// returns what went wrong in giving back slabs so far.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.register = nil
	p.trim()
	return errors.Join(p.errs...)
}
