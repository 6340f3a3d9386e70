package softnic

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// srq is a shared receive queue. Its entries are a linked list in memory: each
// says which one is posted after it, and the one posted last, whose successor is
// not known yet, is never the NIC's. The doorbell record counts, in all of its 32
// bits, what was posted.
type srq struct {
	nic         *NIC
	mem         memory
	origin      origin
	srqn        uint32
	user        uint64
	pd          *pd // of the memory that receives name, whatever queue pair takes them
	async       *eventFile
	buf, record uint64
	entries     uint32 // a power of two
	segments    uint32 // of an entry, as asked for
	stride      uint32 // bytes of an entry
	charge      int64
	users       int // queue pairs

	head        uint16 // index of the next receive
	taken       uint32 // free running
	limit       uint32 // below so many posted ones an event is due; 0: none
	failed      bool
	asyncEvents uint32
}

// posted is how many receives wait in the queue.
func (s *srq) posted() uint32 {
	v, ok := s.nic.load(s.origin, s.mem, s.record+4*prm.RecordReceive, trace.SharedQueue, s.srqn)
	if !ok {
		s.nic.warn("receive doorbell record is not mapped", "srqn", s.srqn)
		return 0
	}
	return prm.BE32(v) - s.taken
}

// take fetches the next receive; ok is false if none is posted. An error is a
// receive that cannot be used. One by which the list is broken ends the queue, and
// every queue pair that wants a receive of it from then on.
func (s *srq) take(r *receive) (ok bool, err error) {
	r.counter = s.head
	if s.failed {
		return true, bad(detailShared, "entry %d", s.head)
	}
	posted := s.posted()
	r.addr = s.buf + uint64(s.head)*uint64(s.stride)
	switch {
	case posted == 0:
		return false, nil
	case posted >= s.entries:
		return true, s.fail(bad(detailOverposted, "%d receives posted to a queue of %d", posted, s.entries-1))
	case s.mem.Read(r.addr, r.entry) != nil:
		return true, s.fail(bad(detailQueueGone, "entry %d", s.head))
	}
	r.fetched = len(r.entry)
	next, err := prm.ParseShared(r.entry, &r.segments)
	if uint32(next) >= s.entries {
		return true, s.fail(bad(detailLink, "entry %d leads to %d of %d", s.head, next, s.entries))
	}
	s.head = next
	s.taken++
	s.checkLimit(posted - 1)
	return true, err
}

// arm asks for an event as soon as fewer receives are left than limit; 0 asks for none.
func (s *srq) arm(limit uint32) error {
	if limit >= s.entries {
		return refuse(einval, "limit %d of a queue of %d", limit, s.entries)
	}
	s.limit = limit
	return nil
}

// checkLimit raises the event that was asked for, once.
func (s *srq) checkLimit(posted uint32) {
	if posted < s.limit {
		s.limit = 0
		s.raise(uapi.EventSRQLimitReached)
	}
}

func (s *srq) fail(err error) error {
	s.failed = true
	s.nic.warn("shared receive queue", "srqn", s.srqn, "error", err)
	s.raise(uapi.EventSRQErr)
	return err
}

func (s *srq) raise(kind uint32) {
	if s.async != nil {
		s.asyncEvents++
	}
	s.nic.raiseAsync(s.async, event{element: s.user, kind: kind, owner: s})
}

// addSRQ gives the queue its number.
func (n *NIC) addSRQ(s *srq) {
	s.nic = n
	for n.srqs[n.nextSRQN] {
		n.nextSRQN = nextNumber(n.nextSRQN)
	}
	s.srqn = n.nextSRQN
	n.nextSRQN = nextNumber(n.nextSRQN)
	n.srqs[s.srqn] = true
	s.pd.users++
	n.count.SRQs++
}

func (n *NIC) dropSRQ(s *srq) {
	delete(n.srqs, s.srqn)
	s.pd.users--
	n.count.SRQs--
}
