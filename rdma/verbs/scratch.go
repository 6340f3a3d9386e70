package verbs

import (
	"errors"
	"sync"

	"github.com/farwire/farwire/internal/hostmem"
)

// alloc allocates the memory of commands. Tests replace it to run out of memory.
var alloc = hostmem.Alloc

// scratch is a pool of memory outside the Go heap in which commands are built.
// It grows to the number of commands that ever ran at once.
type scratch struct {
	mu   sync.Mutex
	idle []*hostmem.Memory
}

// get returns at least n bytes; put must follow. Memory for unusually long
// commands is not kept.
func (s *scratch) get(n int) (*hostmem.Memory, error) {
	if n > hostmem.PageSize() {
		return alloc(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := len(s.idle) - 1; i >= 0 {
		m := s.idle[i]
		s.idle = s.idle[:i]
		return m, nil
	}
	return alloc(hostmem.PageSize())
}

func (s *scratch) put(m *hostmem.Memory) {
	if len(m.Bytes()) > hostmem.PageSize() {
		_ = m.Free() // nothing refers to it any more
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, m)
}

// free releases the pool. No command may be running.
func (s *scratch) free() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, m := range s.idle {
		errs = append(errs, m.Free())
	}
	s.idle = nil
	return errors.Join(errs...)
}
