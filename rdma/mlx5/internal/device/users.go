package device

import (
	"errors"
	"sync"

	"github.com/farwire/farwire/internal/prm"
)

// Key finds the queue pair of a completion: its user index in completion queue
// entries of version 1, its number in those of version 0.
type Key uint32

// users gives out user indices. One is free again once its queue pair is
// destroyed and the queue pair's completions are purged.
type users struct {
	mu   sync.Mutex
	next Key
	free []Key
}

var errUsers = errors.New("no user index is free")

func (u *users) get() (Key, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.free); n > 0 {
		k := u.free[n-1]
		u.free = u.free[:n-1]
		return k, nil
	}
	if u.next == prm.NoUserIndex {
		return 0, errUsers
	}
	u.next++
	return u.next - 1, nil
}

func (u *users) put(k Key) {
	u.mu.Lock()
	u.free = append(u.free, k)
	u.mu.Unlock()
}
