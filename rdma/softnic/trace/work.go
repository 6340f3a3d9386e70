package trace

import (
	"encoding/binary"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// record writes what follows the time and the process.
func (l *line) record(r *Record) {
	switch r.Kind {
	case Open:
		l.word("OPEN")
		if name := program(r.Process); name != "" {
			l.text("program", name)
		}
	case Close:
		l.word("CLOSE")
	case Ioctl:
		l.ioctl(r)
	case Map:
		l.word("MMAP")
		l.hex("offset", uint64(r.Offset))
		l.dec("length", uint64(r.Length))
		l.result(r)
		if r.Errno == 0 {
			l.hex("page", uint64(r.Number))
		}
	case Doorbell:
		l.doorbell(r)
	case RecordRead:
		l.word("DBREC")
		l.recordWord(r)
	case Work:
		l.work(r)
	case Completion:
		l.completion(r)
	case CompletionEvent, AsyncEvent:
		l.event(r)
	case Note:
		l.word("NOTE")
		l.free(r.Reason)
	default:
		l.word("UNKNOWN")
		l.dec("kind", uint64(r.Kind))
		l.bytes("bytes", r.Bytes)
	}
}

// result is that of a call: 0, or -1 and why.
func (l *line) result(r *Record) {
	if r.Errno == 0 {
		l.word("= 0")
		return
	}
	l.word("= -1")
	l.word(errno(r.Errno))
	l.free("(" + r.Reason + ")")
}

// number is the number of a queue, under the name it goes by.
func (l *line) number(q Queue, v uint32) {
	switch q {
	case NoQueue:
	case SharedQueue:
		l.hex("srqn", uint64(v))
	case CompletionQueue, ArmWord:
		l.hex("cqn", uint64(v))
	default:
		l.hex("qpn", uint64(v))
	}
}

func (l *line) doorbell(r *Record) {
	l.word("DOORBELL")
	l.hex("page", uint64(r.Number))
	l.hex("register", uint64(r.Offset))
	switch {
	case len(r.Bytes) < 8:
		l.word("overtaken")
	case r.Offset == prm.ArmRegister:
		value, cqn := prm.ParseArmDoorbell(binary.NativeEndian.Uint64(r.Bytes))
		l.hex("cqn", uint64(cqn))
		l.arm(value)
	default:
		bell := prm.ParseSendDoorbell(binary.NativeEndian.Uint64(r.Bytes))
		l.hex("qpn", uint64(bell.QPN))
		l.dec("index", uint64(bell.Index))
		l.word(opcode(bell.Opcode))
		l.dec("ds", uint64(bell.DS))
	}
	if r.BlueFlame {
		l.word("BLUEFLAME")
	}
	if r.Rings > 1 {
		l.dec("rings", uint64(r.Rings))
	}
}

func (l *line) arm(v uint32) {
	sn, solicited, ci, ok := prm.ParseArm(v)
	if !ok {
		l.hex("arm", uint64(v))
		return
	}
	l.dec("sn", uint64(sn))
	l.dec("ci", uint64(ci))
	if solicited {
		l.word("SOLICITED")
	} else {
		l.word("NEXT")
	}
}

func (l *line) recordWord(r *Record) {
	names := [...]string{SendQueue: "SQ", ReceiveQueue: "RQ", SharedQueue: "SRQ", CompletionQueue: "CQ", ArmWord: "ARM"}
	if int(r.Queue) < len(names) && names[r.Queue] != "" {
		l.word(names[r.Queue])
	}
	l.number(r.Queue, r.Number)
	v, ok := be32(r.Bytes)
	switch {
	case !ok:
		l.bytes("bytes", r.Bytes)
	case r.Queue == ArmWord:
		l.arm(v)
	case r.Queue == CompletionQueue:
		l.dec("ci", uint64(v))
	default:
		l.dec("posted", uint64(v))
	}
}

func (l *line) work(r *Record) {
	switch r.Queue {
	case SendQueue:
		l.word("SEND_WQE")
	case SharedQueue:
		l.word("SRQ_WQE")
	default:
		l.word("RECV_WQE")
	}
	l.number(r.Queue, r.Number)
	l.dec("index", uint64(r.Index))
	switch r.Queue {
	case SendQueue:
		l.send(r)
	case SharedQueue:
		l.shared(r)
	default:
		l.receive(r)
	}
	if r.Reason != "" {
		l.text("error", r.Reason)
	}
}

func (l *line) send(r *Record) {
	var s prm.Send
	parse := prm.ParseSend
	if r.QPType == uapi.QPTypeUD {
		parse = prm.ParseDatagram
	}
	err := parse(r.Bytes, &s)
	if len(r.Bytes) < prm.Unit {
		l.bytes("bytes", r.Bytes)
		return
	}
	l.word(opcode(s.Opcode))
	if s.Flags != 0 {
		l.word(flags(controlFlags, uint64(s.Flags)))
	}
	if err != nil {
		l.bytes("bytes", r.Bytes)
		return
	}
	l.dec("ds", uint64(s.DS))
	if s.Opcode.HasImm() {
		l.hex("imm", uint64(s.Imm))
	}
	if r.QPType == uapi.QPTypeUD && s.Opcode != prm.OpNop {
		l.group("av", func() { l.address(&s.Address) })
	}
	if s.Opcode.HasRemote() {
		l.hex("remote_addr", s.RemoteAddr)
		l.hex("rkey", uint64(s.RKey))
	}
	if s.Opcode.IsAtomic() {
		l.hex("swap_add", s.SwapAdd)
	}
	if s.Opcode == prm.OpCompareSwap {
		l.hex("compare", s.Compare)
	}
	l.dec("length", s.Length)
	if s.Inline != nil {
		l.bytes("inline", s.Inline)
	}
	l.segments(s.Segments)
}

func (l *line) address(a *prm.Address) {
	l.hex("qpn", uint64(a.QPN))
	l.hex("qkey", uint64(a.QKey))
	l.text("gid", verbs.GID(a.GID).String())
	l.dec("sgid_index", uint64(a.SourceIndex))
	l.dec("lid_udp_sport", uint64(a.LID))
	l.dec("sl", uint64(a.ServiceLevel))
	l.dec("hop_limit", uint64(a.HopLimit))
}

func (l *line) segments(list []prm.Segment) {
	for _, s := range list {
		l.group("sge", func() {
			l.hex("addr", s.Addr)
			l.dec("length", uint64(s.Length))
			l.hex("lkey", uint64(s.LKey))
		})
	}
}

func (l *line) receive(r *Record) {
	var list []prm.Segment
	if prm.ParseReceive(r.Bytes, &list) != nil {
		l.bytes("bytes", r.Bytes)
		return
	}
	l.segments(list)
}

func (l *line) shared(r *Record) {
	var list []prm.Segment
	next, err := prm.ParseShared(r.Bytes, &list)
	if err != nil {
		l.bytes("bytes", r.Bytes)
		return
	}
	l.dec("next", uint64(next))
	l.segments(list)
}
