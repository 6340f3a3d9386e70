package trace

import (
	"encoding/binary"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

func (l *line) completion(r *Record) {
	l.word("CQE")
	l.hex("cqn", uint64(r.Number))
	l.dec("index", uint64(r.Index))
	if len(r.Bytes) < prm.CQESize {
		l.bytes("bytes", r.Bytes)
		return
	}
	front := r.Bytes[:len(r.Bytes)-prm.CQESize]
	e := prm.CQE(r.Bytes[len(front):])
	kind := e.Opcode()
	l.hex("qpn", uint64(e.QPN()))
	l.word(pick(completions, kind))
	switch {
	case kind.IsError():
		l.failure(r, e)
	case kind == prm.CQERequester:
		l.word(opcode(e.SendOpcode()))
		l.dec("wqe_counter", uint64(e.WQECounter()))
		if e.SendOpcode() == prm.OpRead || e.SendOpcode().IsAtomic() {
			l.dec("byte_cnt", uint64(e.ByteCount()))
		}
	case kind < prm.CQEResize:
		l.arrival(e)
	}
	l.data(front, e)
	if v := e.UserIndex(); v != 0 {
		l.hex("srqn_uidx", uint64(v))
	}
	l.dec("owner", uint64(e.Owner()))
}

func (l *line) failure(r *Record, e prm.CQE) {
	if e.Opcode() == prm.CQERequesterError {
		l.word(opcode(e.SendOpcode()))
	}
	l.dec("wqe_counter", uint64(e.WQECounter()))
	l.hex("syndrome", uint64(e.Syndrome()))
	l.text("status", e.Syndrome().String())
	l.hex("vendor_err_synd", uint64(e.VendorSyndrome()))
	if r.Reason != "" {
		l.text("detail", r.Reason)
	}
}

func (l *line) arrival(e prm.CQE) {
	l.dec("wqe_counter", uint64(e.WQECounter()))
	l.dec("byte_cnt", uint64(e.ByteCount()))
	if e.Opcode() != prm.CQEReceive {
		l.hex("imm_inval_pkey", uint64(e.Imm()))
	}
	l.hex("src_qp", uint64(e.RemoteQPN()))
	if e.SourceLID() != 0 {
		l.dec("slid", uint64(e.SourceLID()))
	}
	if e.HasGRH() {
		l.word("GRH")
	}
	if e.Solicited() {
		l.word("SOLICITED")
	}
}

// data are the bytes of the message that a completion carries.
func (l *line) data(front []byte, e prm.CQE) {
	switch e.Format() {
	case prm.CQEPlain:
	case prm.CQEInline32:
		l.bytes("inline", e[:min(e.ByteCount(), prm.Inline32)])
	case prm.CQEInline64:
		l.bytes("inline", front[:min(uint64(e.ByteCount()), uint64(len(front)))])
	default:
		l.dec("format", uint64(e.Format()))
	}
}

func (l *line) event(r *Record) {
	name := "COMP_EVENT"
	if r.Kind == AsyncEvent {
		name = "ASYNC_EVENT"
	}
	l.word(name)
	l.dec("fd", uint64(r.FD))
	l.number(r.Queue, r.Number)
	switch {
	case r.Kind == AsyncEvent && len(r.Bytes) == uapi.Size[uapi.AsyncEvent]():
		l.word(pick(events, binary.NativeEndian.Uint32(r.Bytes[8:])))
		fallthrough
	case r.Kind == CompletionEvent && len(r.Bytes) == uapi.Size[uapi.CompEvent]():
		l.hex("element", binary.NativeEndian.Uint64(r.Bytes))
	default:
		l.bytes("bytes", r.Bytes)
	}
}
