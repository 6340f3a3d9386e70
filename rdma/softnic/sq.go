package softnic

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
)

// fetch hands posted entries to the protocol, as far as there are slots, and
// returns how many. It runs in RTS, and in error, where the protocol flushes.
func (q *qp) fetch() (did int) {
	if !q.rung || !q.sending() {
		return 0
	}
	v, ok := q.loadSend()
	if !ok {
		q.nic.warn("send doorbell record is not mapped", "qpn", q.qpn)
		q.rung = false
		return 0
	}
	for posted := uint16(prm.BE32(v)); q.head != posted; did++ {
		if !q.hasSlot() {
			return did
		}
		q.post(posted)
	}
	q.rung = false
	return did
}

func (q *qp) hasSlot() bool { return q.slotNext-q.slotDone < uint32(len(q.slots)) }

// post fetches the entry at head.
func (q *qp) post(posted uint16) {
	i := q.slotNext % uint32(len(q.slots))
	s := &q.slots[i]
	w := &q.nic.work
	*w = rc.Work{Slot: i}
	s.block, s.detail, s.cause, s.inline.n = q.head, detailNone, nil, 0
	if err := q.read(s, posted); err != nil {
		s.fail(err)
		w.Fault = rc.LocalQPOperation
		if s.detail == detailTooLong {
			w.Fault = rc.LocalLength
		}
	} else {
		s.work(w)
	}
	if q.nic.tracing() {
		q.traceSend(s)
	}
	q.blueFlameBad = false
	q.slotNext++
	if pending := posted - q.head; uint32(pending) > q.sendBlocks {
		q.head = posted // the record is nonsense: there is nothing behind it to flush
	} else {
		q.head += min(s.blocks(), pending)
	}
	switch {
	case q.sink:
		q.CompleteSend(w, w.Fault, 0)
		return
	case q.isNull(w):
		q.completeNull(w)
		return
	}
	q.proto.Post(w)
}

// blocks is how many blocks the entry takes. One whose size cannot be believed
// takes one, so that the queue is walked to its end.
func (s *slot) blocks() uint16 {
	n := uint16((int(s.DS&prm.MaxUnits)*prm.Unit + prm.Block - 1) / prm.Block)
	if n == 0 || s.detail == detailIndex {
		return 1
	}
	return n
}

// work is what the entry asks of the protocol.
func (s *slot) work(w *rc.Work) {
	w.Op = operations[s.Opcode]
	w.Length = uint32(s.Length)
	w.Remote, w.RKey = s.RemoteAddr, s.RKey
	w.SwapAdd, w.Compare = s.SwapAdd, s.Compare
	if s.Opcode.HasImm() {
		w.Imm = s.Imm
	}
	w.Fence = s.Flags&prm.Fence != 0
	w.Solicited = s.Flags&prm.Solicited != 0
}

var operations = [256]rc.Op{
	prm.OpNop:         rc.OpNop,
	prm.OpSend:        rc.OpSend,
	prm.OpSendImm:     rc.OpSendImm,
	prm.OpSendInv:     rc.OpSendInvalidate,
	prm.OpWrite:       rc.OpWrite,
	prm.OpWriteImm:    rc.OpWriteImm,
	prm.OpRead:        rc.OpRead,
	prm.OpCompareSwap: rc.OpCompareSwap,
	prm.OpFetchAdd:    rc.OpFetchAdd,
}

// entryError is what is wrong with an entry beyond its layout.
type entryError struct {
	detail detail
	text   string
}

func (e *entryError) Error() string { return fmt.Sprintf("%v: %s", e.detail, e.text) }

func bad(d detail, format string, args ...any) error {
	return &entryError{d, fmt.Sprintf(format, args...)}
}

func (s *slot) fail(err error) {
	s.cause = err
	var layout *prm.WQEError
	var entry *entryError
	switch {
	case errors.As(err, &layout):
		s.detail = detail(layout.Reason)
	case errors.As(err, &entry):
		s.detail = entry.detail
	}
}

// read fetches and judges the entry at head: its place in the queue, its
// layout, and the device's limits.
func (q *qp) read(s *slot, posted uint16) error {
	s.Send, s.fetched = prm.Send{Segments: s.Segments[:0]}, 0
	pending := posted - q.head
	if q.sendBlocks == 0 || uint32(pending) > q.sendBlocks {
		return bad(detailOverposted, "%d blocks posted to a queue of %d", pending, q.sendBlocks)
	}
	if s.entry = s.entry[:cap(s.entry)]; len(s.entry) < prm.Block {
		s.entry = make([]byte, prm.Block)
	}
	if !q.copyEntry(s.entry[:prm.Block], q.head) {
		return bad(detailQueueGone, "block %d", q.head)
	}
	s.fetched = prm.Block
	ctrl, err := prm.ParseCtrl(s.entry)
	if err != nil {
		return err
	}
	s.Ctrl = ctrl
	switch {
	case ctrl.Index != q.head:
		return bad(detailIndex, "index %d at block %d", ctrl.Index, q.head)
	case ctrl.QPN != q.qpn:
		return bad(detailQPN, "entry of queue pair %#x", ctrl.QPN)
	}
	size := int(ctrl.DS&prm.MaxUnits) * prm.Unit
	if blocks := (size + prm.Block - 1) / prm.Block; blocks > int(pending) {
		return bad(detailOverposted, "entry of %d blocks, %d posted", blocks, pending)
	}
	if size > len(s.entry) {
		s.entry = append(s.entry, make([]byte, (size+prm.Block-1)&^(prm.Block-1)-len(s.entry))...)
	}
	if size > prm.Block && !q.copyEntry(s.entry[prm.Block:size], q.head+1) {
		return bad(detailQueueGone, "block %d", q.head)
	}
	s.fetched = max(size, prm.Unit)
	if q.sink {
		return nil
	}
	parse := prm.ParseSend
	if q.kind == uapi.QPTypeUD {
		parse = prm.ParseDatagram
	}
	if err := parse(s.entry[:s.fetched], &s.Send); err != nil {
		return err
	}
	return q.checkLimits(s)
}

func (q *qp) checkLimits(s *slot) error {
	n := q.nic
	switch {
	case q.blueFlameBad:
		return bad(detailBlueFlame, "index %d", s.Index)
	case s.Length > maxMessage, q.kind == uapi.QPTypeUD && s.Length > uint64(n.mtu.Bytes()):
		return bad(detailTooLong, "%d bytes", s.Length)
	case len(s.Segments) > n.lim.SendSGE:
		return bad(detailSegments, "%d, limit %d", len(s.Segments), n.lim.SendSGE)
	case q.kind == uapi.QPTypeUC && (s.Opcode == prm.OpRead || s.Opcode.IsAtomic() || s.Opcode == prm.OpSendInv):
		return &prm.WQEError{Reason: prm.UnknownOpcode, Opcode: s.Opcode, Offset: 3, Value: uint64(s.Opcode)}
	case (s.Opcode == prm.OpRead || s.Opcode.IsAtomic()) && q.attr.MaxRdAtomic == 0:
		return bad(detailReads, "%v", s.Opcode)
	}
	return nil
}

// blockAddr is where a block of the send queue is.
func (q *qp) blockAddr(block uint16) uint64 {
	return q.sendBuf + (uint64(block)&uint64(q.sendBlocks-1))*prm.Block
}

// copyEntry copies the start of the entry at a block, around the ring's end.
func (q *qp) copyEntry(p []byte, block uint16) bool {
	at := q.blockAddr(block)
	first := min(uint64(len(p)), q.sendBuf+uint64(q.sendBlocks)*prm.Block-at)
	return q.mem.Read(at, p[:first]) == nil &&
		(first == uint64(len(p)) || q.mem.Read(q.sendBuf, p[first:]) == nil)
}

// CompleteSend writes the completion of an entry that asked for one or failed.
func (q *qp) CompleteSend(w *rc.Work, s rc.Syndrome, bytes uint32) {
	e := &q.slots[w.Slot]
	q.slotDone++
	if s == rc.OK && e.Flags&prm.CQEUpdate == 0 {
		return
	}
	c := prm.Completion{
		Opcode:     prm.CQERequester,
		QPN:        q.qpn,
		UserIndex:  q.userIndex,
		SendOpcode: e.Opcode,
		WQECounter: e.block,
		ByteCount:  bytes,
	}
	if n := e.inline.n; n > 0 && s == rc.OK {
		q.sendCQ.setInline(&c, e.inline.bytes[:n])
	}
	if s != rc.OK {
		c.Opcode, c.ByteCount = prm.CQERequesterError, 0
		c.Syndrome = prm.Syndrome(s)
		if e.detail == detailNone || s == rc.Flushed {
			e.detail = detailOf(s)
		}
		c.VendorSyndrome = uint8(e.detail)
		if s != rc.Flushed {
			q.nic.warn("send failed", "qpn", q.qpn, "index", e.block, "opcode", e.Opcode,
				"syndrome", s, "detail", e.detail, "cause", e.cause)
		}
	}
	q.sendCQ.complete(c)
}
