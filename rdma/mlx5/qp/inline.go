package qp

import (
	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
)

// postInline is post for a single entry of inline bytes.
func (s *sender) postInline(entries []Entry, ring bool) (n int, err error) {
	s.mu.Lock()
	block := s.ledger.Block()
	w, units := s.inline(&entries[0])
	if size := blocks(units); units > 0 && ring && s.waiting == 0 && size <= s.flame { // as tell
		s.ledger.HandOver()
		mmio.BlueFlame(s.record, prm.BE32((block+size)&0xffff), s.bell.Turn(), w, size)
		s.mu.Unlock()
		return 1, nil
	}
	if units > 0 {
		s.last, s.units = block, units
		s.waiting++
		n = 1
	}
	n, err = s.rest(entries, n, ring)
	s.mu.Unlock()
	return n, err
}

// inline posts an entry of inline bytes that do not go on at the ring's start, and returns
// its first block and its units. They are 0, and nothing is posted, for any other entry.
func (s *sender) inline(e *Entry) (w *[8]uint64, units uint32) {
	op, n := e.Op, len(e.Inline)
	if s.free == 0 || op == 0 || op >= Read || n == 0 || n > s.bounds.Inline ||
		len(e.Locals) > 0 || e.Local.Length > 0 || e.Solicited || e.Fence {
		return nil, 0
	}
	block := s.ledger.Block()
	i := block & uint32(len(s.ring.blocks)-1)
	w = &s.ring.blocks[i]
	data, before := (*[2]uint64)(w[2:]), uint32(1)
	if hasRemote(op) {
		data[0], data[1] = prm.RemoteWords(e.Remote.Addr, e.Remote.RKey)
		data, before = (*[2]uint64)(w[4:]), 2
	}
	data[0] = prm.InlineWord(n)
	units = before + uint32(prm.InlineUnits(n))
	to := s.ring.bytes[i*prm.Block+before*prm.Unit+prm.InlineHeader:]
	if n > len(to) {
		return nil, 0
	}
	w[0], w[1] = s.ctrl[op].Words(uint16(block), uint8(units), signaled(e), e.Imm&immediate[op])
	s.ledger.Open(ledger.Entry{ID: e.ID, Op: uint8(op)}, blocks(units))
	s.free--
	// Last, as it is a call, after which nothing is to be looked up again.
	copy(to, e.Inline)
	return w, units
}
