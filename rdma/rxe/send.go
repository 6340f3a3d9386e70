package rxe

import (
	"encoding/binary"
	"sync"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/work"
)

// sender is the send ring.
type sender struct {
	mu      sync.Mutex // guards what follows, but for the poller's part of the ledger
	err     error      // why nothing may be posted; nil once connected
	ledger  *ledger.Sends
	bounds  *nic.Bounds
	ring    *ring
	pair    uint64 // id
	waiting bool   // entries were posted since the last ring
}

// opcodes are the kernel's numbers of the operations.
var opcodes = [...]uint32{
	work.Send: rxeabi.OpSend, work.SendImm: rxeabi.OpSendImm,
	work.Write: rxeabi.OpWrite, work.WriteImm: rxeabi.OpWriteImm,
	work.Read: rxeabi.OpRead, work.CompareSwap: rxeabi.OpCompareSwap, work.FetchAdd: rxeabi.OpFetchAdd,
}

// Post writes e into the send ring. The kernel runs it after the next Ring. It
// returns one of work's errors, and has then done nothing. Safe for concurrent use;
// it does not allocate.
func (p *Pair) Post(e work.Entry) error {
	s := &p.send
	s.mu.Lock()
	err := s.post(&e)
	s.mu.Unlock()
	return err
}

// Ring hands the kernel the entries posted since the last Ring, with one system
// call, in which older kernels send them. It does nothing if there are none or the
// queue pair is destroyed. The error is the system call's: the entries stay posted.
// Safe for concurrent use; it does not allocate.
func (p *Pair) Ring() error {
	s := &p.send
	s.mu.Lock()
	if !s.waiting || s.err != nil {
		s.mu.Unlock()
		return nil
	}
	s.ledger.HandOver()
	s.ring.produce(s.ledger.Block())
	s.waiting = false
	err := p.dev.Context().PostSend(p.control.Handle)
	s.mu.Unlock()
	p.flush()
	return err
}

func (s *sender) post(e *work.Entry) error {
	if s.err != nil {
		return s.err
	}
	segments, bytes, err := s.bounds.Check(e)
	if err != nil {
		return err
	}
	// The second can be only if a completion came before its slot was free.
	if s.ledger.Room() == 0 || s.ring.full(s.ledger.Block()) {
		return work.ErrRoom
	}
	s.write(e, segments, bytes)
	s.ledger.Open(ledger.Entry{ID: e.ID, Op: uint8(e.Op)}, 1)
	s.waiting = true
	return nil
}

// write encodes e at the end of the ring.
func (s *sender) write(e *work.Entry, segments int, bytes uint32) {
	slot := s.ring.slot(s.ledger.Block())
	w := rxeabi.View[rxeabi.SendEntry](slot)
	*w = rxeabi.SendEntry{
		ID: makeID(s.pair, work.Sends, s.ledger.Block()), Opcode: opcodes[e.Op], Flags: flags(e),
		DMA: rxeabi.DMA{Length: bytes, Rest: bytes, Segments: uint32(segments)},
	}
	switch e.Op {
	case work.SendImm, work.WriteImm:
		binary.BigEndian.PutUint32(w.Imm[:], e.Imm)
	}
	switch e.Op {
	case work.Write, work.WriteImm, work.Read:
		*rxeabi.View[rxeabi.Remote](w.Op[:]) = rxeabi.Remote{Addr: e.Remote.Addr, RKey: e.Remote.RKey}
		w.IOVA = e.Remote.Addr
	case work.CompareSwap:
		s.writeAtomic(w, rxeabi.Atomic{Addr: e.Remote.Addr, RKey: e.Remote.RKey, CompareAdd: e.Compare, Swap: e.Swap})
	case work.FetchAdd:
		s.writeAtomic(w, rxeabi.Atomic{Addr: e.Remote.Addr, RKey: e.Remote.RKey, CompareAdd: e.Add})
	}
	rest := slot[rxeabi.Size[rxeabi.SendEntry]():]
	if e.Inline != nil {
		copy(rest, e.Inline)
		return
	}
	putSegments(putSegment(rest, e.Local), e.Locals)
}

func (s *sender) writeAtomic(w *rxeabi.SendEntry, a rxeabi.Atomic) {
	*rxeabi.View[rxeabi.Atomic](w.Op[:]) = a
	w.IOVA = a.Addr
}

// flags are those of the kernel's entry.
func flags(e *work.Entry) (f uint32) {
	if e.Fence {
		f |= rxeabi.FlagFence
	}
	if e.Signaled {
		f |= rxeabi.FlagSignaled
	}
	if e.Solicited {
		f |= rxeabi.FlagSolicited
	}
	if e.Inline != nil {
		f |= rxeabi.FlagInline
	}
	return f
}

// putSegment writes a segment, unless it is empty, to the start of b, and returns
// what is behind it.
func putSegment(b []byte, s work.Segment) []byte {
	if s.Length == 0 {
		return b
	}
	*rxeabi.View[rxeabi.Segment](b) = rxeabi.Segment{Addr: s.Addr, Length: s.Length, LKey: s.LKey}
	return b[rxeabi.Size[rxeabi.Segment]():]
}

func putSegments(b []byte, all []work.Segment) {
	for _, s := range all {
		b = putSegment(b, s)
	}
}
