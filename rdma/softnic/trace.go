package softnic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/farwire/farwire/rdma/softnic/trace"
)

// tell gives a record to those who asked for them. There must be somebody: see tracing.
func (n *NIC) tell(o origin, r trace.Record) {
	r.NIC, r.File, r.Process = n.cfg.Name, o.file, o.process
	n.cfg.Trace(&r)
}

// tracing reports whether anybody asked for records. Only then are they made.
func (n *NIC) tracing() bool { return n.cfg.Trace != nil }

// openTrace has the NIC traced to the file that was asked for.
func (n *NIC) openTrace() (err error) {
	if n.cfg.TraceFile == "" {
		return nil
	}
	const mode = 0o666 // before umask
	if n.traceFile, err = os.OpenFile(n.cfg.TraceFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	n.traceLog = trace.NewLog(n.traceFile)
	told := n.cfg.Trace
	n.cfg.Trace = func(r *trace.Record) {
		if told != nil {
			told(r)
		}
		n.traceLog.Trace(r)
	}
	return nil
}

func (n *NIC) closeTrace() error {
	if n.traceFile == nil {
		return nil
	}
	return errors.Join(n.traceLog.Close(), n.traceFile.Close())
}

// origin is whom a thing belongs to.
type origin struct{ file, process int }

// processOf is the number of a caller; nil is this process.
func processOf(c Caller) int {
	if c == nil {
		return os.Getpid()
	}
	return c.Process()
}

func (f *file) origin() origin { return origin{f.number, f.process} }

// traceMap tells of a mapping of process, of a doorbell page if it has a number.
func (f *file) traceMap(process int, offset int64, length int, page uint32, err error) {
	if !f.nic.tracing() {
		return
	}
	r := trace.Record{Kind: trace.Map, Offset: offset, Length: length}
	if err != nil {
		r.Errno, r.Reason = errnoOf(err), err.Error()
	} else {
		r.Number = page
	}
	f.nic.tell(origin{f.number, process}, r)
}

// traceDoorbell tells of a register: its word, and with it what came behind it.
func (u *uar) traceDoorbell(offset int, word uint64, behind []byte, blueFlame bool, wakes uint32) {
	r := trace.Record{Kind: trace.Doorbell, Number: u.index, Offset: int64(offset), BlueFlame: blueFlame}
	if !u.polled {
		r.Rings = int(wakes)
	}
	if word != 0 {
		r.Bytes = binary.NativeEndian.AppendUint64(nil, word)
		r.Bytes = append(r.Bytes, behind...)
	}
	u.nic.tell(u.origin, r)
}

// load reads a word of a doorbell record, in memory order.
func (n *NIC) load(o origin, mem memory, addr uint64, queue trace.Queue, number uint32) (v uint32, ok bool) {
	v, ok = mem.Load32(addr)
	if ok && n.tracing() {
		n.traceLoad(o, addr, queue, number, v)
	}
	return v, ok
}

func (n *NIC) traceLoad(o origin, addr uint64, queue trace.Queue, number, v uint32) {
	n.tell(o, trace.Record{Kind: trace.RecordRead, Queue: queue, Number: number, Address: addr,
		Bytes: binary.NativeEndian.AppendUint32(nil, v)})
}

// traceSend tells of the entry that was fetched into a slot.
func (q *qp) traceSend(s *slot) {
	r := trace.Record{Kind: trace.Work, Queue: trace.SendQueue, Number: q.qpn, QPType: q.kind, Index: uint32(s.block), Bytes: s.entry[:s.fetched]}
	if q.sendBlocks > 0 {
		r.Address = q.blockAddr(s.block)
	}
	if s.cause != nil {
		r.Reason = s.cause.Error()
	}
	q.nic.tell(q.origin, r)
}

// traceReceive tells of the receive that was taken.
func (q *qp) traceReceive(err error) {
	v := &q.receive
	r := trace.Record{Kind: trace.Work, Queue: trace.ReceiveQueue, Number: q.qpn, QPType: q.kind, Index: uint32(v.counter),
		Address: v.addr, Bytes: v.entry[:v.fetched]}
	if q.srq != nil {
		r.Queue, r.Number = trace.SharedQueue, q.srq.srqn
	}
	if err != nil {
		r.Reason = err.Error()
	}
	q.nic.tell(q.origin, r)
}

// traceEvent tells of an event that e's reader will read.
func (n *NIC) traceEvent(e *eventFile, ev event) {
	r := trace.Record{Kind: trace.CompletionEvent, FD: e.fd, Bytes: ev.append(nil, e.size)}
	if e.size == asyncRecord {
		r.Kind = trace.AsyncEvent
	}
	switch o := ev.owner.(type) {
	case *cq:
		r.Queue, r.Number = trace.CompletionQueue, o.cqn
	case *qp:
		r.Queue, r.Number = trace.QueuePair, o.qpn
	case *srq:
		r.Queue, r.Number = trace.SharedQueue, o.srqn
	}
	n.tell(e.origin, r)
}

// traceNote tells what the logger is told: a message, and keys and values.
func (n *NIC) traceNote(msg string, args []any) {
	var b strings.Builder
	b.WriteString(msg)
	for i := 0; i+1 < len(args); i += 2 {
		format := " %v=%v"
		switch args[i] {
		case "qpn", "cqn", "srqn", "rkey", "address": // as the rest of a trace has them
			format = " %v=%#x"
		}
		fmt.Fprintf(&b, format, args[i], args[i+1])
	}
	n.tell(origin{}, trace.Record{Kind: trace.Note, Reason: b.String()})
}
