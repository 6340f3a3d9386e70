package softnic

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// hostile is a NIC with queue pairs of every kind whose peer is the test: whatever that
// sends, as its source of bytes says, only memory changes that is open to it, and each
// packet is counted once. In memory packets travel without an ICRC, so that all of
// them have a good one.
type hostile struct {
	t       testing.TB
	byte    func() byte
	nic     *NIC
	r       *raw
	cq      *rawCQ
	peer    link.Link // at the address that the queue pairs are connected to
	spoofer link.Link // at another
	victims []*victim
	gone    uint32 // number of a queue pair that is no more
	past    [][]byte

	arena  []byte // with canaries around what may change
	addr   uint64
	before []byte
	open   []place // what may change
	keys   [3]uint32
}

// place is a range of the arena.
type place struct{ off, n int }

// victim is a queue pair, and what the peer knows of it.
type victim struct {
	*rawQP
	kind uint8

	mu     sync.Mutex
	next   uint32 // sequence number of the next request to it
	asked  uint32 // of the latest request it sent
	length uint32 // of that, if it was a READ
}

// Where things are in the arena, all off the beginning of a page. Key 0 is a region that
// the peer may do everything to, key 1 one that it may read, key 2 one that is local.
var (
	openRegion = place{4096 + 72, 3000}
	readRegion = place{16384 + 8, 4096 + 7}
	ownRegion  = place{32768 + 16, 16384}
	slotSize   = 1200 // of ownRegion: a message of up to 1100 bytes and a canary
	slotRoom   = 1100
	arenaSize  = 64 << 10
)

const peerNumber = 0x100 // of the queue pairs that the peer pretends to have, and up

func newHostile(t testing.TB, source func() byte) *hostile {
	h := &hostile{t: t, byte: source}
	cfg := private()
	h.nic = newTestNIC(t, cfg)
	var err error
	h.peer, err = h.nic.network.links.Join(netip.MustParseAddr("127.9.9.1"), h.hear)
	require.NoError(t, err)
	h.spoofer, err = h.nic.network.links.Join(netip.MustParseAddr("127.9.9.2"), (*link.Packet).Release)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = h.peer.Close(), h.spoofer.Close() })
	h.r = newRaw(t, h.nic)
	h.cq = h.r.createCQ(1024, false)
	h.arena, h.addr = h.r.alloc(arenaSize)
	for i := range h.arena {
		h.arena[i] = 0xc5 ^ byte(i)
	}
	for i, p := range []place{openRegion, readRegion, ownRegion} {
		access := []uint32{allAccess, uapi.AccessRemoteRead, uapi.AccessLocalWrite}[i]
		h.keys[i] = h.register(p, access)
	}
	h.open = []place{openRegion}
	for off := 0; off+slotSize <= ownRegion.n; off += slotSize {
		h.open = append(h.open, place{ownRegion.off + off, slotRoom})
	}
	for i, kind := range []uint8{uapi.QPTypeRC, uapi.QPTypeUC, uapi.QPTypeUD, uapi.QPTypeRC} {
		q := h.r.createQPAs(16, 16, h.cq, h.cq, func(core *uapi.CreateQP, _ *prm.CreateQPRequest) { core.QPType = kind })
		v := &victim{rawQP: q, kind: kind}
		h.victims = append(h.victims, v)
		h.connect(i)
	}
	spent := h.r.createQP(16, 16, h.cq, h.cq)
	_, _, err = h.r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: spent.handle}), 4, nil, 0)
	require.NoError(t, err)
	h.gone = spent.qpn
	h.before = slices.Clone(h.arena)
	return h
}

func (h *hostile) register(p place, access uint32) (key uint32) {
	start := h.addr + uint64(p.off)
	reply, _, err := h.r.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: start, HcaVa: start, Length: uint64(p.n),
		PDHandle: h.r.pd, AccessFlags: access}), 12, nil, 0)
	require.NoError(h.t, err)
	return binary.NativeEndian.Uint32(reply[4:])
}

const hostilePSN = 0xfffff0 // they start over soon

// connect takes a queue pair to RTS, from any state.
func (h *hostile) connect(i int) {
	v := h.victims[i]
	require.NoError(h.t, h.r.modify(v.to(uapi.QPReset)))
	v.posted, v.received = 0, 0
	v.storeRecord(prm.RecordSend, 0)
	v.storeRecord(prm.RecordReceive, 0)
	v.mu.Lock()
	v.next, v.asked, v.length = hostilePSN, hostilePSN, 0
	v.mu.Unlock()
	steps := v.toDatagrams()
	if v.kind != uapi.QPTypeUD {
		init, rtr, rts := v.toInit(), v.toRTR(v.rawQP), v.toRTS()
		rtr.RqPsn, rts.SqPsn = hostilePSN, hostilePSN
		rtr.DestQPNum = peerNumber + uint32(i)
		rtr.Dest.Dgid = verbs.GIDFrom(h.peer.Addr())
		if v.kind == uapi.QPTypeUC {
			init.AttrMask, rtr.AttrMask, rts.AttrMask = uapi.UCResetToInit, uapi.UCInitToRTR, uapi.UCRTRToRTS
		}
		steps = []uapi.ModifyQP{init, rtr, rts}
	}
	if h.byte()%8 == 0 {
		steps = steps[:2] // it can only receive
	}
	for _, m := range steps {
		require.NoError(h.t, h.r.modify(m))
	}
}

// hear takes in what the NIC sends, and learns from it what is expected.
func (h *hostile) hear(p *link.Packet) {
	defer p.Release()
	b := roce.BTH(p.Buf[:roce.BTHSize])
	i := int(b.DestQP()) - peerNumber
	if i < 0 || i >= len(h.victims) || isNotice(p) {
		return
	}
	v := h.victims[i]
	packet, err := roce.ParseAs(v.transport(), p.Buf)
	if err != nil {
		h.t.Errorf("NIC sent %x: %v", p.Buf, err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case packet.Info.Request():
		v.asked, v.length = b.PSN(), 0
		if r := packet.RETH(); r != nil && packet.Info.Kind == roce.KindReadRequest {
			v.length = r.Length()
		}
	case packet.AETH() != nil && packet.AETH().Syndrome() == roce.NAKSequence:
		v.next = b.PSN()
	}
}

func (v *victim) transport() roce.Transport {
	switch v.kind {
	case uapi.QPTypeUC:
		return roce.UnreliableConnection
	case uapi.QPTypeUD:
		return roce.Datagram
	}
	return roce.ReliableConnection
}

func (h *hostile) pick(of ...uint32) uint32 { return of[int(h.byte())%len(of)] }

func (h *hostile) word() (w uint32) {
	for range 4 {
		w = w<<8 | uint32(h.byte())
	}
	return w
}

func (h *hostile) bytes(n int) []byte {
	b := make([]byte, n)
	fill := h.byte()
	for i := range b {
		b[i] = fill + byte(i)
	}
	return b
}

// header is one with fields that could all be right, and are often not.
func (h *hostile) header(v *victim) roce.Header {
	region := []place{openRegion, readRegion, ownRegion}[h.byte()%3]
	if h.byte()%2 == 0 {
		region = openRegion
	}
	off := h.pick(0, 0, 0, 8, 16, uint32(region.n)-8, uint32(region.n), uint32(region.n)+1, 1<<31, 0xffffffff, ^uint32(71)+1)
	return roce.Header{
		Solicited: h.byte()%2 == 0, AckRequested: h.byte()%2 == 0,
		PKey:   uint16(h.pick(0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0x7fff, 0x8001)),
		DestQP: h.pick(v.qpn, v.qpn, v.qpn, v.qpn, v.qpn, v.qpn, v.qpn, v.qpn, h.gone, v.qpn+64, 0, 1, 0xffffff),
		VA:     h.addr + uint64(region.off) + uint64(int64(int32(off))),
		RKey:   h.pick(h.keys[0], h.keys[0], h.keys[0], h.keys[1], h.keys[2], h.keys[0]^1, h.keys[0]+256, 0, h.word()),
		QKey:   h.pick(testQKey, testQKey, testQKey, 0), SourceQP: h.word(),
		Length:  h.pick(0, 1, 8, 100, 1024, 1025, uint32(region.n), uint32(region.n)+1, 1<<30, 1<<31, 0xffffffff),
		SwapAdd: uint64(h.word()), Compare: uint64(h.word()), Original: uint64(h.word()), Imm: h.word(), Invalidate: h.keys[0],
		MSN: h.word(),
	}
}

// request is a request that is in its turn more often than not.
func (h *hostile) request(v *victim) []byte {
	hd := h.header(v)
	v.mu.Lock()
	hd.PSN = v.next + h.pick(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, ^uint32(0), ^uint32(1), 1<<23, h.word())
	v.mu.Unlock()
	hd.Opcode = v.transport().Opcode(roce.Opcode(h.pick(0, 1, 2, 3, 4, 4, 4, 5, 6, 6, 7, 8, 9, 0xa, 0xa, 0xa, 0xb, 0xc, 0xc, 0xc, 0x13, 0x14, 0x15, 0x16, 0x17, uint32(h.byte()&0x1f))))
	n := int(h.pick(0, 1, 4, 100, 1023, 1024, 1025, 4096))
	switch info := hd.Opcode.Info(); {
	case info.Payload == roce.NoPayload && h.byte()%8 != 0:
		n = 0
	case info.Payload == roce.FullMTU && h.byte()%4 != 0:
		n = 1024
	case info.First && info.Last && h.byte()%4 != 0:
		hd.Length = uint32(n)
	}
	if h.byte()%4 == 0 { // to the end of the region, or just beyond
		hd.VA = h.addr + uint64(openRegion.off+openRegion.n-n) + uint64(h.pick(0, 1, 4, 8))
		hd.RKey = h.keys[0]
	}
	return hd.Append(nil, h.bytes(n))
}

// response is an answer to what the queue pair has sent last, more often than not.
func (h *hostile) response(v *victim) []byte {
	hd := h.header(v)
	v.mu.Lock()
	n := v.length
	hd.PSN = v.asked + h.pick(0, 0, 0, 0, 1, 2, ^uint32(0), ^uint32(1), h.word())
	v.mu.Unlock()
	hd.Opcode = roce.Opcode(h.pick(0x0d, 0x0e, 0x0f, 0x10, 0x10, 0x11, 0x11, 0x11, 0x12, 0x12))
	hd.Syndrome = roce.Syndrome(h.pick(0x1f, 0x1f, 0x1f, 0, 0x60, 0x21, 0x61, 0x62, 0x63, 0x40, uint32(h.byte())))
	size := int(h.pick(n, min(n, 1024), 0, 1, 1024, 4096))
	if hd.Opcode >= roce.Acknowledge {
		size = 0
	}
	return hd.Append(nil, h.bytes(min(size, 4096)))
}

// send sends bytes, from the peer or from another address.
func (h *hostile) send(from link.Link, b []byte) {
	p := from.Get(len(b))
	copy(p.Buf, b)
	p.Dst, p.TClass = h.nic.Addr(), h.byte()
	from.Send(p)
	h.past = append(h.past, b)
}

// act does one thing.
func (h *hostile) act() {
	i := int(h.byte()) % len(h.victims)
	v := h.victims[i]
	for h.cq.next() != nil {
	}
	switch a := h.byte() % 32; {
	case a < 12:
		b := h.request(v)
		h.send(h.peer, b)
		v.mu.Lock()
		if roce.BTH(b).DestQP() == v.qpn && roce.BTH(b).PSN() == v.next&0xffffff {
			v.next++
		}
		v.mu.Unlock()
	case a < 18:
		h.send(h.peer, h.response(v))
	case a < 20:
		b := h.request(v)
		for range h.byte() % 4 {
			b[int(h.byte())%len(b)] ^= h.byte()
		}
		h.send(h.peer, b[:max(0, len(b)-4*int(h.byte()%8))])
	case a < 21:
		h.send(h.spoofer, h.request(v))
	case a < 22 && h.byte()%2 == 0:
		hd := roce.Header{Opcode: roce.CongestionNotification, BECN: h.byte()%4 != 0, DestQP: v.qpn}
		h.send(h.peer, hd.Append(nil, h.bytes(int(h.pick(16, 16, 0, 20)))))
	case a < 22 && len(h.past) > 0:
		h.send(h.peer, h.past[int(h.word())%len(h.past)])
	case a < 24:
		if v.received < 8 || h.byte()%4 == 0 {
			v.receive(h.slot(int(h.pick(0, 1, 100, 1100))))
		}
	case a < 27:
		if v.kind != uapi.QPTypeUD {
			h.post(v)
		}
	default:
		if v.state() == uapi.QPErr || h.byte()%16 == 0 {
			h.connect(i)
		}
	}
}

// slot is a piece of the local region that may change.
func (h *hostile) slot(n int) prm.Segment {
	slots := ownRegion.n / slotSize
	off := int(h.byte()) % slots * slotSize
	return prm.Segment{Addr: h.addr + uint64(ownRegion.off+off), LKey: h.keys[2], Length: uint32(n)}
}

// post has the queue pair ask the peer for something.
func (h *hostile) post(v *victim) {
	s := h.slot(int(h.pick(8, 8, 100, 1024, 1100)))
	op := []prm.Opcode{prm.OpSend, prm.OpWrite, prm.OpRead, prm.OpRead, prm.OpFetchAdd}[h.byte()%5]
	if op == prm.OpFetchAdd {
		s.Length = 8
	}
	m := rawMR{addr: s.Addr, key: s.LKey}
	v.rawQP.post(v.entry(op, m, 0, int(s.Length), 0x1000, 0x77))
}

// check looks at all memory, and at what was counted.
func (h *hostile) check() {
	var c Counters
	sent := h.peer.Counters().Sent + h.spoofer.Counters().Sent
	require.Eventually(h.t, func() bool {
		c = h.nic.Counters()
		return c.PacketsReceived+c.DropOverflow == sent
	}, 10*time.Second, 100*time.Microsecond, "%d packets sent: %+v", sent, &c)
	drops := c.DropUnknownQP + c.DropWrongPeer + c.DropTransport + c.DropMalformed + c.DropState + c.DropPartition + c.DropEarly +
		c.DropNotReady + c.DropRefused + c.DropForgotten + c.DropLost + c.DropStale + c.DropGap + c.DropMisfit +
		c.DropSyndrome + c.DropKey + c.DropLength
	require.Equal(h.t, c.PacketsReceived, c.PacketsAccepted+drops, "%+v", c)
	h.nic.lock() // nothing changes meanwhile
	defer h.nic.unlock()
	for _, p := range h.open {
		copy(h.before[p.off:], h.arena[p.off:p.off+p.n])
	}
	for i := range h.arena {
		if h.arena[i] != h.before[i] {
			require.Failf(h.t, "memory changed that is closed to the peer", "byte %#x of the arena", i)
		}
	}
}

// The peer is hostile and has a long time.
func TestHostilePeer(t *testing.T) {
	steps := 40_000
	if testing.Short() {
		steps = 5_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	h := newHostile(t, func() byte { return byte(rnd.Uint32()) })
	for i := range steps {
		if h.act(); i%256 == 0 {
			h.check()
			h.past = h.past[:min(len(h.past), 256)]
		}
	}
	h.check()
	c := h.nic.Counters()
	t.Logf("%+v", c)
	for what, n := range map[string]uint64{
		"accepted": c.PacketsAccepted, "unknown queue pair": c.DropUnknownQP, "wrong peer": c.DropWrongPeer, "transport": c.DropTransport,
		"malformed": c.DropMalformed, "state": c.DropState, "partition": c.DropPartition, "early": c.DropEarly,
		"not ready": c.DropNotReady, "refused": c.DropRefused, "forgotten": c.DropForgotten, "lost": c.DropLost, "stale": c.DropStale,
		"misfit": c.DropMisfit, "syndrome": c.DropSyndrome, "key": c.DropKey,
		"congestion notification": c.NoticesReceived,
	} {
		require.NotZero(t, n, "no packet met this fate: %s", what)
	}
}

// The same with bytes that a fuzzer chooses.
func FuzzHostilePeer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h := newHostile(t, func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		})
		for len(in) > 0 {
			h.act()
		}
		h.check()
	})
}
