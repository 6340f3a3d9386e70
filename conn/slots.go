package conn

// slots are the buffers of one direction by number: those that the connection has from
// beginning to end, and those that it leases while it is busy.
type slots struct {
	bufs   []Buffer
	leased []*Lease // by number; nil for those that stay, and for no buffer
	vacant []int    // numbers that have no buffer
}

// newSlots has room for most buffers, or for first if these are more.
func newSlots(first []Buffer, most int) slots {
	most = max(most, len(first))
	s := slots{bufs: make([]Buffer, most), leased: make([]*Lease, most)}
	copy(s.bufs, first)
	for i := most - 1; i >= len(first); i-- {
		s.vacant = append(s.vacant, i)
	}
	return s
}

// have is how many buffers there are.
func (s *slots) have() int { return len(s.bufs) - len(s.vacant) }

// grown reports whether some of them are leased.
func (s *slots) grown() bool {
	for _, l := range s.leased {
		if l != nil {
			return true
		}
	}
	return false
}

// add takes in the buffer of l, for which there must be a number, and returns that.
func (s *slots) add(l *Lease) int {
	i := s.vacant[len(s.vacant)-1]
	s.vacant = s.vacant[:len(s.vacant)-1]
	s.bufs[i], s.leased[i] = l.Buffers[0], l
	return i
}

// drop gives back buffer i if it is leased, and reports whether it was.
func (s *slots) drop(i int) bool {
	l := s.leased[i]
	if l == nil {
		return false
	}
	s.bufs[i], s.leased[i] = Buffer{}, nil
	s.vacant = append(s.vacant, i)
	l.Release()
	return true
}

// dropAll gives back all that is leased.
func (s *slots) dropAll() {
	for i := range s.leased {
		s.drop(i)
	}
}
