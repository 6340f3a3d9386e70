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

	// Limit is the most bytes ever registered at one time. 0 means 256 MiB.
	Limit int
}

// Slab is a piece of registered memory.
type Slab struct {
	Mem  []byte
	Addr uint64 // the address the NIC knows Mem by
	LKey uint32
	Free func() // gives it back; called once
}

// Pool shares registered memory between connections. Its methods may be called by many
// goroutines at once.
type Pool struct {
	cfg PoolConfig

	mu     sync.Mutex
	slabs  []*slab
	inUse  int
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
	buffers int
	free    []int
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
	if cfg.Limit == 0 {
		cfg.Limit = 256 << 20
	}
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
func (p *Pool) Get(n int) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	for p.free() < n {
		if err := p.grow(); err != nil {
			free := p.shrink()
			defer release(free)
			return nil, fmt.Errorf("conn: lease %d buffers of %d bytes, %d in use: %w", n, p.cfg.Size, p.inUse, err)
		}
	}
	l := &Lease{pool: p, Buffers: make([]Buffer, 0, n), where: make([]place, 0, n)}
	for _, s := range p.slabs {
		for len(s.free) > 0 && len(l.Buffers) < n {
			i := s.free[len(s.free)-1]
			s.free = s.free[:len(s.free)-1]
			l.Buffers = append(l.Buffers, s.buffer(i, p.cfg.Size))
			l.where = append(l.where, place{s, i})
		}
	}
	p.inUse += n
	return l, nil
}

// Release gives the buffers back. Nothing may use them any more. Only the first call
// counts.
func (l *Lease) Release() { l.once.Do(l.release) }

func (l *Lease) release() {
	l.pool.mu.Lock()
	for _, w := range l.where {
		w.slab.free = append(w.slab.free, w.index)
	}
	l.pool.inUse -= len(l.where)
	free := l.pool.shrink()
	l.pool.mu.Unlock()
	release(free)
}

// Stats returns the state of the pool.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Slabs: len(p.slabs), Registered: len(p.slabs) * p.cfg.SlabSize, InUse: p.inUse}
}

// Close gives back the memory of the pool and makes Get fail. Memory that is leased is
// given back with its lease.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	free := p.shrink()
	p.mu.Unlock()
	release(free)
}

func (p *Pool) free() int {
	n := 0
	for _, s := range p.slabs {
		n += len(s.free)
	}
	return n
}

func (p *Pool) grow() error {
	if (len(p.slabs)+1)*p.cfg.SlabSize > p.cfg.Limit {
		return fmt.Errorf("%w (%d bytes)", ErrPoolLimit, p.cfg.Limit)
	}
	reg, err := p.cfg.Register(p.cfg.SlabSize)
	if err != nil {
		return err
	}
	s := &slab{Slab: reg, buffers: p.cfg.SlabSize / p.cfg.Size}
	for i := range s.buffers {
		s.free = append(s.free, s.buffers-1-i)
	}
	p.slabs = append(p.slabs, s)
	return nil
}

// shrink removes the slabs that are not in use, but for one, so that connections that
// come and go do not register anew. It returns those removed.
func (p *Pool) shrink() []*slab {
	var keep, free []*slab
	spare := p.closed
	for _, s := range p.slabs {
		switch {
		case len(s.free) < s.buffers:
			keep = append(keep, s)
		case !spare:
			spare = true
			keep = append(keep, s)
		default:
			free = append(free, s)
		}
	}
	p.slabs = keep
	return free
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
