package qp

import (
	"sync"
	"unsafe"

	"github.com/farwire/farwire/internal/mmio"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
)

// sender is the send ring.
type sender struct {
	mu     sync.Mutex // guards what follows, but for the poller's part of the ledger
	err    error      // why nothing may be posted; nil once connected
	free   uint32     // entries that fit at least; 0 while err is set
	ledger *ledger.Sends
	ctrl   [8]prm.CtrlBase // by Op
	bounds nic.Bounds
	ring   sendRing
	record *uint32
	bell   *device.Bell
	flame  uint32 // blocks of an entry that may be copied to the bell's register without more; 0 is none

	waiting uint32 // entries posted since the last ring
	last    uint32 // first block of the last of them
	units   uint32 // and its length
}

// Post writes e into the send ring. The NIC runs it after the next Ring. It
// returns one of this package's errors or region.ErrRange, and has then done
// nothing. Safe for concurrent use; it does not allocate.
func (p *Pair) Post(e Entry) error {
	_, err := p.send.post((*[1]Entry)(unsafe.Pointer(&e))[:], false)
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
func (p *Pair) Submit(entries []Entry) (n int, err error) { return p.send.post(entries, true) }

// post does all of Submit, or, without ring, of Post, for entries as most are: of at most
// one segment, and without inline bytes. It makes no call before the doorbell, since each
// costs ten to twenty instructions.
func (s *sender) post(entries []Entry, ring bool) (n int, err error) {
	if len(entries) == 1 && entries[0].Inline != nil {
		return s.postInline(entries, ring)
	}
	s.mu.Lock()
	var w *[8]uint64 // of the last entry: its block
	block, units := uint32(0), uint32(0)
	for uint(n) < uint(len(entries)) { // as numbers without sign, so that n is seen to be an index
		e := &entries[n]
		op, bytes := e.Op, e.Local.Length
		if s.free == 0 || op == 0 || op > Read || e.Inline != nil || len(e.Locals) > 0 ||
			bytes > s.bounds.Message || e.Solicited || e.Fence {
			break
		}
		l := s.ledger
		block, units = l.Block(), 1
		w = s.ring.block(block)
		data := (*[2]uint64)(w[2:])
		if hasRemote(op) {
			data[0], data[1] = prm.RemoteWords(e.Remote.Addr, e.Remote.RKey)
			data, units = (*[2]uint64)(w[4:]), 2
		}
		if bytes > 0 {
			data[0], data[1] = prm.DataWords(e.Local.Addr, e.Local.LKey, bytes)
			units++
		}
		w[0], w[1] = s.ctrl[op].Words(uint16(block), uint8(units), signaled(e), e.Imm&immediate[op])
		l.Open(ledger.Entry{ID: e.ID, Op: uint8(op)}, 1)
		s.free--
		n++
	}
	if n == 1 && len(entries) == 1 && ring && s.waiting == 0 && units > 1 && s.flame > 0 { // as tell
		s.ledger.HandOver()
		mmio.BlueFlame(s.record, prm.BE32((block+1)&0xffff), s.bell.Turn(), w, 1)
		s.mu.Unlock()
		return n, nil
	}
	if n > 0 {
		s.waiting += uint32(n)
		s.last, s.units = block, units
	}
	if n < len(entries) {
		n, err = s.rest(entries, n, ring)
	} else if ring && s.waiting > 0 && s.err == nil {
		s.tell()
	}
	s.mu.Unlock()
	return n, err
}

// rest posts any entries from the one after n, and does the rest of post.
func (s *sender) rest(entries []Entry, n int, ring bool) (int, error) {
	var err error
	for ; n < len(entries); n++ {
		e := &entries[n]
		block := s.ledger.Block()
		_, units := s.inline(e)
		if units == 0 {
			if err = s.allowed(e); err != nil {
				break
			}
			units = s.write(block, e)
		}
		s.last, s.units = block, units
		s.waiting++
	}
	if ring && s.waiting > 0 && s.err == nil {
		s.tell()
	}
	return n, err
}

// allowed is why e may not be posted.
func (s *sender) allowed(e *Entry) error {
	if s.err != nil {
		return s.err
	}
	if _, _, err := s.bounds.Check(e); err != nil {
		return err
	}
	if s.free == 0 {
		s.free = s.ledger.Room()
	}
	if s.free == 0 {
		return ErrRoom
	}
	return nil
}

// write encodes any entry, which may be posted, and returns its units.
func (s *sender) write(block uint32, e *Entry) (units uint32) {
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
	units = end - start
	ctrl := ring.unit(start)
	ctrl[0], ctrl[1] = s.ctrl[e.Op&7].Words(uint16(block), uint8(units), flags(e), e.Imm&immediate[e.Op&7])
	s.ledger.Open(ledger.Entry{ID: e.ID, Op: uint8(e.Op)}, blocks(units))
	s.free--
	return units
}

// tell rings the doorbell for the entries that wait. A single entry that fits a
// register goes with it (BlueFlame), which saves the NIC from fetching it.
func (s *sender) tell() {
	s.ledger.HandOver()
	counter, n := prm.BE32(s.ledger.Block()&0xffff), blocks(s.units)
	single := s.waiting == 1 && s.units > 1
	s.waiting = 0
	if single && n <= s.flame {
		mmio.BlueFlame(s.record, counter, s.bell.Turn(), s.ring.entry(s.last, n), n)
		return
	}
	if single && n*prm.Block <= s.bell.Copies() {
		s.bell.Copy(s.record, counter, s.ring.entry(s.last, n), n)
	} else {
		s.bell.Ring(s.record, counter, s.ring.block(s.last)[0])
	}
}
