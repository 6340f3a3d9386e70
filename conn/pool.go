package conn

import (
	"errors"
	"fmt"
	"sync"
)

// ErrPoolLimit is inside the error of a Get that would go beyond the pool's limit.
var ErrPoolLimit = errors.New("limit of registered memory reached")

var errPoolClosed = errors.New("conn: pool is closed")

// PoolConfig says where the memory of a Pool comes from.
type PoolConfig struct {
	// Register makes n bytes of registered memory. One call is made at a time.
	Register func(n int) (Slab, error)

	// Size is the number of bytes in each buffer. 0 means DefaultSize.
	Size int

	// SlabSize is how many bytes are registered at a time. 0 means 1 MiB. It is never
	// less than Size.
	SlabSize int

	// Limit is the most bytes ever registered at one time. 0 means no limit.
	Limit int
}

// Slab is a piece of registered memory.
type Slab struct {
	Mem  []byte
	Addr uint64 // the address the NIC knows Mem by
	LKey uint32
	Free func() // gives it back; called once
}

// Pool shares registered memory between connections. What Get and Release cost does not
// depend on how many there are. Its methods may be called by many goroutines at once.
type Pool struct {
	cfg PoolConfig

	mu     sync.Mutex
	avail  []*slab // slabs with a free buffer
	slabs  int
	free   int // buffers that are not leased
	idle   int // slabs all of whose buffers are free
	closed bool
}

// PoolStats is the state of a Pool.
type PoolStats struct {
	Slabs      int // registered now
	Registered int // bytes in them
	InUse      int // buffers that are leased
}

type slab struct {
	Slab
	at   int   // index in Pool.avail
	free []int // buffers that are not leased
}

// NewPool returns an empty pool. It registers nothing until Get is called.
func NewPool(cfg PoolConfig) *Pool {
	if cfg.Size == 0 {
		cfg.Size = DefaultSize
	}
	if cfg.SlabSize == 0 {
		cfg.SlabSize = 1 << 20
	}
	cfg.SlabSize = max(cfg.SlabSize, cfg.Size)
	return &Pool{cfg: cfg}
}

// Lease is a number of buffers taken from a pool.
type Lease struct {
	Buffers []Buffer

	pool  *Pool
	where []place
	once  sync.Once
}

type place struct {
	slab  *slab
	index int
}

// Get leases n buffers, all or none. It registers memory if there is not enough, and
// fails with ErrPoolLimit inside when that is not allowed.
func (p *Pool) Get(n int) (*Lease, error) { return p.GetWithin(n, p.cfg.Limit) }

// GetWithin is Get with another limit than the pool's.
func (p *Pool) GetWithin(n, limit int) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	l := &Lease{pool: p, Buffers: make([]Buffer, 0, n), where: make([]place, 0, n)}
	for len(l.Buffers) < n {
		if err := p.lease(l, limit); err != nil {
			defer release(p.takeBack(l))
			return nil, fmt.Errorf("conn: lease %d buffers of %d bytes, %d in use: %w", n, p.cfg.Size, p.inUse()-len(l.where), err)
		}
	}
	return l, nil
}

// lease adds one buffer to l.
func (p *Pool) lease(l *Lease, limit int) error {
	if len(p.avail) == 0 {
		if err := p.grow(limit); err != nil {
			return err
		}
	}
	s := p.avail[len(p.avail)-1]
	if len(s.free) == p.perSlab() {
		p.idle--
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	p.free--
	if len(s.free) == 0 {
		p.remove(s)
	}
	l.Buffers = append(l.Buffers, s.buffer(i, p.cfg.Size))
	l.where = append(l.where, place{s, i})
	return nil
}

// Release gives the buffers back. Nothing may use them any more. Only the first call
// counts.
func (l *Lease) Release() {
	l.once.Do(func() {
		l.pool.mu.Lock()
		unused := l.pool.takeBack(l)
		l.pool.mu.Unlock()
		release(unused)
	})
}

// takeBack takes the buffers of l back. It returns the slabs that are not needed any
// more: all that are unused but one, so that connections that come and go do not
// register anew.
func (p *Pool) takeBack(l *Lease) (unused []*slab) {
	for _, w := range l.where {
		s := w.slab
		if len(s.free) == 0 {
			p.add(s)
		}
		s.free = append(s.free, w.index)
		p.free++
		if len(s.free) < p.perSlab() {
			continue
		}
		if p.idle++; p.idle > 1 || p.closed {
			unused = append(unused, p.drop(s))
		}
	}
	return unused
}

// Stats returns the state of the pool.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Slabs: p.slabs, Registered: p.slabs * p.cfg.SlabSize, InUse: p.inUse()}
}

// Close gives back the memory of the pool and makes Get fail. Memory that is leased is
// given back with its lease.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	var unused []*slab
	for _, s := range p.avail {
		if len(s.free) == p.perSlab() {
			unused = append(unused, p.drop(s))
			break // there is no second one
		}
	}
	p.mu.Unlock()
	release(unused)
}

func (p *Pool) perSlab() int { return p.cfg.SlabSize / p.cfg.Size }
func (p *Pool) inUse() int   { return p.slabs*p.perSlab() - p.free }

// grow adds a slab.
func (p *Pool) grow(limit int) error {
	if limit > 0 && (p.slabs+1)*p.cfg.SlabSize > limit {
		return fmt.Errorf("%w: %d bytes are registered, %d more would be beyond %d", ErrPoolLimit, p.slabs*p.cfg.SlabSize, p.cfg.SlabSize, limit)
	}
	memory, err := p.cfg.Register(p.cfg.SlabSize)
	if err != nil {
		return err
	}
	s := &slab{Slab: memory}
	for i := range p.perSlab() {
		s.free = append(s.free, p.perSlab()-1-i)
	}
	p.slabs++
	p.idle++
	p.free += len(s.free)
	p.add(s)
	return nil
}

// drop forgets a slab that is not used.
func (p *Pool) drop(s *slab) *slab {
	p.remove(s)
	p.slabs--
	p.idle--
	p.free -= len(s.free)
	return s
}

// add and remove keep the list of slabs with a free buffer.
func (p *Pool) add(s *slab) {
	s.at = len(p.avail)
	p.avail = append(p.avail, s)
}

func (p *Pool) remove(s *slab) {
	last := p.avail[len(p.avail)-1]
	p.avail[s.at], last.at = last, s.at
	p.avail[len(p.avail)-1] = nil
	p.avail = p.avail[:len(p.avail)-1]
}

func release(slabs []*slab) {
	for _, s := range slabs {
		s.Free()
	}
}

func (s *slab) buffer(i, size int) Buffer {
	off := i * size
	return Buffer{Bytes: s.Mem[off : off+size : off+size], Addr: s.Addr + uint64(off), LKey: s.LKey}
}
