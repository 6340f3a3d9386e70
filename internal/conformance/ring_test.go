package conformance

import (
	"encoding/binary"
	"fmt"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// mapping is a mapping of a doorbell page.
func (d *decoder) mapping(r *trace.Record) *act {
	a := &act{what: "map doorbell page"}
	if command, _, _ := prm.ParseMapOffset(r.Offset, hostmem.PageSize()); command == prm.MapClockInfo {
		a.what = "map page about the clock"
	}
	a.add("Offset", "%s", d.of("offset", uint64(r.Offset)))
	a.add("Length", "%d", r.Length)
	a.add("page", "%s", d.of("page", uint64(r.Number)))
	return a
}

// doorbell is a store to a doorbell page.
func (d *decoder) doorbell(r *trace.Record) *act {
	if r.Offset == prm.ArmRegister {
		return d.arm(r)
	}
	a := &act{what: "ring"}
	a.add("page", "%s", d.of("page", uint64(r.Number)))
	a.add("register", "%#x", r.Offset)
	a.add("BlueFlame", "%v", r.BlueFlame)
	if r.BlueFlame {
		// The processor copies whole blocks.
		size := int(r.Bytes[7]) * prm.Unit
		ring := d.rings[d.of("qpn", uint64(qpnOf(r.Bytes)))]
		at := ring.start + uint64(indexOf(r.Bytes))*prm.Block
		d.entry(a, ring, at, r.Bytes[:size])
		end := (size + prm.Block - 1) &^ (prm.Block - 1)
		a.add("behind the entry", "%s", ring.stale(at+uint64(size), r.Bytes[size:end]))
	} else {
		d.doorbellWord(a, r.Bytes)
	}
	return a
}

func (d *decoder) arm(r *trace.Record) *act {
	a := &act{what: "arm"}
	a.add("page", "%s", d.of("page", uint64(r.Number)))
	a.add("value", "%x", r.Bytes[:4])
	a.add("queue", "%s", d.of("cqn", uint64(binary.BigEndian.Uint32(r.Bytes[4:]))))
	return a
}

// doorbellWord adds the first two words of a control segment.
func (d *decoder) doorbellWord(a *act, b []byte) {
	a.add("opmod", "%#x", b[0])
	a.add("index", "%d", indexOf(b))
	a.add("opcode", "%#x", b[3])
	a.add("queue pair", "%s", d.of("qpn", uint64(qpnOf(b))))
	a.add("DS", "%#x", b[7])
}

// indexOf and qpnOf are of a control segment.
func indexOf(b []byte) uint16 { return binary.BigEndian.Uint16(b[1:]) }
func qpnOf(b []byte) uint32   { return binary.BigEndian.Uint32(b[4:]) >> 8 }

// work is an entry that the NIC fetched.
func (d *decoder) work(r *trace.Record) *act {
	switch r.Queue {
	case trace.ReceiveQueue:
		return d.receive(r, "qpn", r.Bytes)
	case trace.SharedQueue:
		a := d.receive(r, "srqn", r.Bytes[prm.Unit:])
		a.add("link", "%x", r.Bytes[:prm.Unit])
		return a
	}
	a := &act{what: "entry of " + d.of("qpn", uint64(r.Number))}
	a.add("fault", "%s", r.Reason)
	a.add("at", "%s", d.of("address", r.Address))
	ring := d.rings[d.of("qpn", uint64(r.Number))]
	d.entry(a, ring, r.Address, r.Bytes)
	ring.put(r.Address, r.Bytes)
	return a
}

// receive is a receive that the NIC fetched, of a queue with a number of that kind.
func (d *decoder) receive(r *trace.Record, kind string, segments []byte) *act {
	a := &act{what: "receive of " + d.of(kind, uint64(r.Number))}
	a.add("fault", "%s", r.Reason)
	a.add("at", "%s", d.of("address", r.Address))
	for i := 0; i+prm.Unit <= len(segments); i += prm.Unit {
		d.segment(a, fmt.Sprintf("segment %d ", i/prm.Unit), segments[i:])
		if a.get(fmt.Sprintf("segment %d key", i/prm.Unit)) == terminator {
			break // what lies behind is nobody's
		}
	}
	return a
}

// sendRing is what lies in a send ring, as far as its entries tell.
type sendRing struct {
	start uint64
	bytes []byte
}

// put notes the bytes of an entry.
func (s *sendRing) put(addr uint64, b []byte) {
	for i, v := range b {
		s.bytes[(int(addr-s.start)+i)%len(s.bytes)] = v
	}
}

const asItLay = "as it lay"

// stale tells whether b, of an entry but written by nobody, is what lay at its place
// before.
func (s *sendRing) stale(addr uint64, b []byte) string {
	for i, v := range b {
		if s.bytes[(int(addr-s.start)+i)%len(s.bytes)] != v {
			return fmt.Sprintf("%x", b)
		}
	}
	return asItLay
}

// entry adds the segments of a send queue entry, which lies at addr of its ring. Every
// byte is in some field.
func (d *decoder) entry(a *act, ring *sendRing, addr uint64, b []byte) {
	d.doorbellWord(a, b)
	a.add("signature and stream", "%x", b[8:11])
	a.add("flags", "%#x", b[11])
	a.add("immediate", "%x", b[12:16])
	op := prm.Opcode(b[3])
	at := prm.Unit
	if op.HasRemote() {
		a.add("remote address", "%s", d.of("address", binary.BigEndian.Uint64(b[at:])))
		a.add("remote key", "%s", d.of("rkey", uint64(binary.BigEndian.Uint32(b[at+8:]))))
		a.add("remote reserved", "%x", b[at+12:at+16])
		at += prm.Unit
	}
	if op.IsAtomic() {
		a.add("swap or add", "%x", b[at:at+8])
		compare := fmt.Sprintf("%x", b[at+8:at+16])
		if op == prm.OpFetchAdd { // has no use for it
			compare = ring.stale(addr+uint64(at)+8, b[at+8:at+16])
		}
		a.add("compare", "%s", compare)
		at += prm.Unit
	}
	for i := 0; at+prm.Unit <= len(b); i, at = i+1, at+prm.Unit {
		if i == 0 && b[at]&0x80 != 0 {
			a.inline(ring, addr+uint64(at), b[at:])
			return
		}
		d.segment(a, fmt.Sprintf("segment %d ", i), b[at:])
	}
}

func (a *act) inline(ring *sendRing, addr uint64, b []byte) {
	n := int(binary.BigEndian.Uint32(b) &^ (1 << 31))
	end := min(len(b), prm.InlineHeader+n)
	a.add("inline length", "%d", n)
	a.add("inline bytes", "%x", b[prm.InlineHeader:end])
	a.add("inline padding", "%s", ring.stale(addr+uint64(end), b[end:]))
}

// terminator is the key that ends a receive's list.
const terminator = "terminator"

func (d *decoder) segment(a *act, prefix string, b []byte) {
	length, key, addr := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint64(b[8:])
	a.add(prefix+"length", "%d", length)
	if key == 0x100 {
		a.add(prefix+"key", terminator)
		a.add(prefix+"address", "%#x", addr)
		return
	}
	a.add(prefix+"key", "%s", d.of("lkey", uint64(key)))
	a.add(prefix+"address", "%s", d.of("address", addr))
}

// completion is an entry that the NIC wrote, as the driver's requests had it do.
func (d *decoder) completion(r *trace.Record) *act {
	e := prm.CQE(r.Bytes[len(r.Bytes)-prm.CQESize:])
	a := &act{what: "completion in " + d.of("cqn", uint64(r.Number))}
	a.add("at", "%s", d.of("address", r.Address))
	a.add("opcode", "%v", e.Opcode())
	a.add("format", "%d", e.Format())
	a.add("owner", "%d", e.Owner())
	a.add("queue pair", "%s", d.of("qpn", uint64(e.QPN())))
	a.add("counter", "%d", e.WQECounter())
	a.add("bytes", "%d", e.ByteCount())
	a.add("immediate", "%#x", e.Imm())
	index := d.number("UserIndex", uint64(e.UserIndex()))
	if srq, ok := d.known["srqn"][uint64(e.UserIndex())]; ok { // of version 0
		index = srq
	}
	a.add("user index", "%s", index)
	if e.Opcode().IsError() {
		a.add("syndrome", "%v", e.Syndrome())
	}
	return a
}

// event is a completion event.
func (d *decoder) event(r *trace.Record) *act {
	a := &act{what: "event"}
	a.add("descriptor", "%s", d.of("fd", uint64(r.FD)))
	a.add("UserHandle", "%s", d.of("user", word(r.Bytes)))
	return a
}
