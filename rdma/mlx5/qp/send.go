package qp

import (
	"sync"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
)

// sender is the send ring.
type sender struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	ledger *ledger.Sends
	qpn    uint32
	bounds *nic.Bounds
	ring   sendRing
	record *uint32
	bell   *device.Bell

	waiting uint32 // entries posted since the last ring
	last    uint32 // first block of the last of them
	units   uint32 // and its length
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

// Submit is Post for each of entries in turn, and then Ring, at less than the cost of as
// many calls. It stops at the first that cannot be posted, rings for those before, and
// returns how many those are and why the next was not posted. Others' entries do not come
// in between.
func (p *Pair) Submit(entries []Entry) (n int, err error) {
	s := &p.send
	s.mu.Lock()
	for n < len(entries) {
		if err = s.post(&entries[n]); err != nil {
			break
		}
		n++
	}
	if s.waiting > 0 && s.err == nil {
		s.tell()
	}
	s.mu.Unlock()
	return n, err
}

// post encodes e at the end of the ring. The control segment comes last: it says how
// long the entry is.
func (s *sender) post(e *Entry) error {
	if s.err != nil {
		return s.err
	}
	if s.ledger.Room() == 0 {
		return s.full(e)
	}
	block, units := s.ledger.Block(), uint32(1)
	w := s.ring.block(block)
	switch plain := s.bounds.Plain(e); {
	case plain && hasRemote(e.Op): // what is plain fits a block
		w[2], w[3] = prm.RemoteWords(e.Remote.Addr, e.Remote.RKey)
		units = 2
		if d := &e.Local; d.Length > 0 {
			w[4], w[5] = prm.DataWords(d.Addr, d.LKey, d.Length)
			units = 3
		}
	case plain:
		if d := &e.Local; d.Length > 0 {
			w[2], w[3] = prm.DataWords(d.Addr, d.LKey, d.Length)
			units = 2
		}
	case s.bounds.PlainInline(e):
		if hasRemote(e.Op) {
			w[2], w[3] = prm.RemoteWords(e.Remote.Addr, e.Remote.RKey)
			units = 2
		}
		units += s.ring.putInline(block*prm.BlockUnits+units, e.Inline)
	default:
		var err error
		if units, err = s.write(block, e); err != nil {
			return err
		}
	}
	w[0], w[1] = prm.CtrlWords(opcodes[e.Op&7], uint16(block), s.qpn, uint8(units), flags(e), imm(e))
	s.last, s.units = block, units
	s.ledger.Open(ledger.Entry{ID: e.ID, Op: uint8(e.Op)}, (units+prm.BlockUnits-1)/prm.BlockUnits)
	s.waiting++
	return nil
}

// full is why e is not posted to a ring without room.
func (s *sender) full(e *Entry) error {
	if _, _, err := s.bounds.Check(e); err != nil {
		return err
	}
	return ErrRoom
}

// write encodes what follows the control segment of any entry, if it may be posted, and
// returns the entry's units.
func (s *sender) write(block uint32, e *Entry) (units uint32, err error) {
	if _, _, err := s.bounds.Check(e); err != nil {
		return 0, err
	}
	start, ring := block*prm.BlockUnits, &s.ring
	end := start + 1
	if hasRemote(e.Op) {
		u := ring.unit(end)
		u[0], u[1] = prm.RemoteWords(e.Remote.Addr, e.Remote.RKey)
		end++
	}
	switch {
	case isAtomic(e.Op):
		end = ring.putAtomic(end, e)
	case e.Inline != nil:
		end += ring.putInline(end, e.Inline)
	default:
		end = ring.putData(end, e.Local, e.Locals)
	}
	return end - start, nil
}

// tell rings the doorbell for the entries that wait. A single entry that fits a
// register goes with it (BlueFlame), which saves the NIC from fetching it.
func (s *sender) tell() {
	s.ledger.HandOver()
	counter := prm.BE32(s.ledger.Block() & 0xffff)
	if s.waiting == 1 && s.units > 1 && s.units*prm.Unit <= s.bell.Copies() {
		n := (s.units + prm.BlockUnits - 1) / prm.BlockUnits
		s.bell.Copy(s.record, counter, s.ring.entry(s.last, n), n)
	} else {
		s.bell.Ring(s.record, counter, s.ring.block(s.last)[0])
	}
	s.waiting = 0
}
