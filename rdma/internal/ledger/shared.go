package ledger

import "sync"

// Shared is the ledger of a shared receive queue. Its receives complete in any order,
// and in the completion queues of several queue pairs, so that posters and pollers meet
// here: each holds the ledger's lock.
//
// The entries are a list, which the NIC follows: each names the one that is posted after
// it. An entry goes to the end of the list when it is retired. The last one of the list
// is never posted, as nobody knows yet what follows it: a queue of so many entries takes
// one receive less.
type Shared struct {
	mu       sync.Mutex
	link     func(entry, next uint16)
	ids      []uint64
	next     []uint16
	posted   []bool
	head     uint16 // the entry of the next receive
	tail     uint16 // the last of the list
	free     uint32 // entries from head to tail, without that
	capacity uint32
}

// NewShared is an empty ledger of so many entries, a power of two from 2 to 1<<15. link writes
// that one entry comes after another to the memory that the NIC reads: now for all of them, and
// from Retire, with the ledger locked.
func NewShared(entries uint32, link func(entry, next uint16)) *Shared {
	s := &Shared{link: link, ids: make([]uint64, entries), next: make([]uint16, entries), posted: make([]bool, entries),
		tail: uint16(entries - 1), free: entries - 1, capacity: entries - 1}
	for i := range s.next {
		s.next[i] = uint16((i + 1) % int(entries))
		link(uint16(i), s.next[i])
	}
	return s
}

// Capacity is how many receives fit into the queue.
func (s *Shared) Capacity() uint32 { return s.capacity }

// Lock is for posters, who call what follows. Unlock ends it.
func (s *Shared) Lock() { s.mu.Lock() }

// Unlock ends Lock.
func (s *Shared) Unlock() { s.mu.Unlock() }

// Room is how many receives fit.
func (s *Shared) Room() uint32 { return s.free }

// Head is the entry of the next receive, if there is Room.
func (s *Shared) Head() uint16 { return s.head }

// Open writes down the receive at Head. The NIC is told of it before the ledger is
// unlocked.
func (s *Shared) Open(id uint64) {
	i := s.head
	s.ids[i], s.posted[i] = id, true
	s.head = s.next[i]
	s.free--
}

// Retire frees the entry that a completion names, and returns the identifier of its
// receive. It is false, and frees nothing, if no receive is posted there. For pollers,
// who need no Lock.
func (s *Shared) Retire(entry uint16) (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(entry) >= len(s.posted) || !s.posted[entry] {
		return 0, false
	}
	s.posted[entry] = false
	s.next[s.tail] = entry
	s.link(s.tail, entry)
	s.tail = entry
	s.free++
	return s.ids[entry], true
}
