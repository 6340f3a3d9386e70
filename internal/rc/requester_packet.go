package rc

import (
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// requestOpcodes are the opcodes by operation and place in the message.
var requestOpcodes = [...][4]roce.Opcode{
	OpSend:           {roce.SendMiddle, roce.SendFirst, roce.SendLast, roce.SendOnly},
	OpSendImm:        {roce.SendMiddle, roce.SendFirst, roce.SendLastImmediate, roce.SendOnlyImmediate},
	OpSendInvalidate: {roce.SendMiddle, roce.SendFirst, roce.SendLastInvalidate, roce.SendOnlyInvalidate},
	OpWrite:          {roce.WriteMiddle, roce.WriteFirst, roce.WriteLast, roce.WriteOnly},
	OpWriteImm:       {roce.WriteMiddle, roce.WriteFirst, roce.WriteLastImmediate, roce.WriteOnlyImmediate},
	OpCompareSwap:    {roce.CompareSwap, roce.CompareSwap, roce.CompareSwap, roce.CompareSwap},
	OpFetchAdd:       {roce.FetchAdd, roce.FetchAdd, roce.FetchAdd, roce.FetchAdd},
}

// Places in a message: the sum of what holds.
const (
	firstPacket = 1
	lastPacket  = 2
)

// send writes the next packet, which is of t, and moves on.
func (r *requester) send(now time.Time, t *task, p []byte) int {
	if t.Op == OpRead {
		return r.sendRead(now, t, p)
	}
	place := 0
	if r.packet == 0 {
		place |= firstPacket
	}
	last := r.packet == t.packets-1
	if last {
		place |= lastPacket
	}
	h := roce.Header{
		Opcode:       r.q.service.Opcode(requestOpcodes[t.Op][place]),
		Solicited:    last && t.Solicited && t.Op.TakesReceive(),
		AckRequested: !r.q.unreliable() && (last || r.wantsAck()),
		DestQP:       r.q.peer,
		PSN:          r.next.psn(),
		VA:           t.Remote,
		RKey:         t.RKey,
		Length:       t.Length,
		SwapAdd:      t.SwapAdd,
		Compare:      t.Compare,
		Imm:          t.Imm,
		Invalidate:   t.Imm,
	}
	var off, n uint32
	if !t.Op.isAtomic() {
		off = r.packet * r.q.mtu
		n = min(t.Length-off, r.q.mtu)
	}
	payload, size := h.Put(p, int(n))
	if n > 0 {
		if t.Fault = r.q.host.Gather(&t.Work, off, payload); t.Fault != OK {
			r.endFaulty()
			return 0
		}
	}
	r.sent(now, t, 1, h.AckRequested)
	if r.q.unreliable() {
		r.oldest = r.next // it is as good as acknowledged
		r.retire()
	}
	return size
}

// sendRead writes a request for the next piece of a READ, or for the piece's tail
// when its first responses have arrived before one was lost.
func (r *requester) sendRead(now time.Time, t *task, p []byte) int {
	off, n := r.packet*r.q.mtu, r.askable(t)
	h := roce.Header{
		Opcode:       roce.ReadRequest,
		AckRequested: true,
		DestQP:       r.q.peer,
		PSN:          r.next.psn(),
		VA:           t.Remote + uint64(off),
		RKey:         t.RKey,
		Length:       min(t.Length-off, n*r.q.mtu),
	}
	_, size := h.Put(p, 0)
	if r.packet%r.piece != 0 {
		t.asked = r.next
	}
	r.sent(now, t, n, true)
	return size
}

// wantsAck says whether a packet inside a message asks for an acknowledgement:
// one in a few, and the one that closes the window or takes the last room.
func (r *requester) wantsAck() bool {
	return r.next-r.asked >= r.every-1 || r.next-r.oldest == r.window-1 || r.isLast()
}

// sent moves past the packet just written, which takes n sequence numbers.
func (r *requester) sent(now time.Time, t *task, n uint32, ask bool) {
	if r.next < r.newest {
		r.q.counters.RequestsRepeated++
	}
	r.take(seq(n))
	r.next += seq(n)
	r.newest = max(r.newest, r.next)
	r.packet += n
	if r.packet == t.packets {
		r.packet = 0
		r.works.step()
	}
	if t.Op.isAnswered() {
		r.reads++
	}
	if ask {
		idle := r.asked <= r.oldest
		r.asked = r.next
		if idle {
			r.arm(now)
		}
	}
}
