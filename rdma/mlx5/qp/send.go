package qp

import (
	"sync"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// sender is the send ring.
type sender struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	ledger *ledger.Sends
	qpn    uint32
	bounds *nic.Bounds
	ring   []byte // a power of two
	record *uint32
	bell   *device.Bell

	waiting uint32 // entries posted since the last ring
	last    uint32 // offset of the last of them
	units   int    // and its length
}

// Post writes e into the send ring. The NIC runs it after the next Ring. It
// returns one of this package's errors or region.ErrRange, and has then done
// nothing. Safe for concurrent use; it does not allocate.
func (p *Pair) Post(e Entry) error {
	s := &p.send
	s.mu.Lock()
	err := s.post(&e)
	s.mu.Unlock()
	return err
}

// Ring hands the NIC the entries posted since the last Ring, with one doorbell.
// It does nothing if there are none or the queue pair is destroyed. Safe for
// concurrent use; it does not allocate.
func (p *Pair) Ring() {
	s := &p.send
	s.mu.Lock()
	if s.waiting > 0 && s.err == nil {
		s.tell()
	}
	s.mu.Unlock()
}

func (s *sender) post(e *Entry) error {
	if s.err != nil {
		return s.err
	}
	units, err := units(e, s.bounds)
	if err != nil {
		return err
	}
	if s.ledger.Room() == 0 {
		return ErrRoom
	}
	s.last, s.units = s.at(s.ledger.Block()*prm.Block), units
	s.write(e)
	s.ledger.Open(ledger.Entry{ID: e.ID, Op: uint8(e.Op)}, uint32(units+3)/4)
	s.waiting++
	return nil
}

// write encodes e at the end of the ring. A segment never straddles the ring's
// end, but the next one may be at its start.
func (s *sender) write(e *Entry) {
	op := opcodes[e.Op]
	imm := e.Imm
	if !op.HasImm() {
		imm = 0
	}
	pos := s.last
	prm.PutCtrl(s.ring[pos:], &prm.Ctrl{
		Opcode: op, Index: uint16(s.ledger.Block()), QPN: s.qpn, DS: uint8(s.units), Flags: flags(e), Imm: imm,
	})
	pos = s.at(pos + prm.Unit)
	if op.HasRemote() {
		prm.PutRemote(s.ring[pos:], e.Remote.Addr, e.Remote.RKey)
		pos = s.at(pos + prm.Unit)
	}
	if op.IsAtomic() {
		pos = s.writeAtomic(pos, e)
	}
	if len(e.Inline) > 0 {
		s.writeInline(pos, e.Inline)
		return
	}
	pos = s.writeData(pos, e.Local)
	for _, segment := range e.Locals {
		pos = s.writeData(pos, segment)
	}
}

func (s *sender) writeAtomic(pos uint32, e *Entry) uint32 {
	if e.Op == CompareSwap {
		prm.PutAtomic(s.ring[pos:], e.Swap, e.Compare)
	} else {
		prm.PutAtomic(s.ring[pos:], e.Add, 0)
	}
	return s.at(pos + prm.Unit)
}

func (s *sender) writeData(pos uint32, d region.Segment) uint32 {
	if d.Length == 0 {
		return pos
	}
	prm.PutData(s.ring[pos:], prm.Segment{Addr: d.Addr, LKey: d.LKey, Length: d.Length})
	return s.at(pos + prm.Unit)
}

// writeInline copies b behind its header; what reaches the ring's end goes on at
// its start.
func (s *sender) writeInline(pos uint32, b []byte) {
	prm.PutInlineHeader(s.ring[pos:], len(b))
	n := copy(s.ring[pos+prm.InlineHeader:], b)
	copy(s.ring, b[n:])
}

// tell rings the doorbell for the entries that wait. A single entry that fits a
// register goes with it (BlueFlame), which saves the NIC from fetching it.
func (s *sender) tell() {
	s.ledger.HandOver()
	counter := prm.BE32(s.ledger.Block() & 0xffff)
	size := uint32(s.units) * prm.Unit
	if s.waiting == 1 && s.units > 1 && int(size) <= s.bell.Copies() {
		s.bell.Copy(s.record, counter, s.ring, s.last, size)
	} else {
		s.bell.Ring(s.record, counter, prm.SendDoorbell(s.ring[s.last:]))
	}
	s.waiting = 0
}

// at is an offset in the ring.
func (s *sender) at(pos uint32) uint32 { return pos & uint32(len(s.ring)-1) }
