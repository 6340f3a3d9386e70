package roce

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are the opcodes Parse accepts, with the table of the specification said
// again in other words: bytes of extended headers, least and most payload.
var known = []struct {
	op          Opcode
	headers     int
	least, most int
	place       string // only, first, middle, last
	kind        Kind
}{
	{0x00, 0, 256, 256, "first", KindSend},
	{0x01, 0, 256, 256, "middle", KindSend},
	{0x02, 0, 1, 256, "last", KindSend},
	{0x03, 4, 1, 256, "last", KindSend},
	{0x04, 0, 0, 256, "only", KindSend},
	{0x05, 4, 0, 256, "only", KindSend},
	{0x06, 16, 256, 256, "first", KindWrite},
	{0x07, 0, 256, 256, "middle", KindWrite},
	{0x08, 0, 1, 256, "last", KindWrite},
	{0x09, 4, 1, 256, "last", KindWrite},
	{0x0a, 16, 0, 256, "only", KindWrite},
	{0x0b, 20, 0, 256, "only", KindWrite},
	{0x0c, 16, 0, 0, "only", KindReadRequest},
	{0x0d, 4, 256, 256, "first", KindReadResponse},
	{0x0e, 0, 256, 256, "middle", KindReadResponse},
	{0x0f, 4, 1, 256, "last", KindReadResponse},
	{0x10, 4, 0, 256, "only", KindReadResponse},
	{0x11, 4, 0, 0, "only", KindAck},
	{0x12, 12, 0, 0, "only", KindAtomicAck},
	{0x13, 28, 0, 0, "only", KindCompareSwap},
	{0x14, 28, 0, 0, "only", KindFetchAdd},
	{0x16, 4, 1, 256, "last", KindSend},
	{0x17, 4, 0, 256, "only", KindSend},
}

// full is a header with a value in each field that op carries.
func full(op Opcode) Header {
	h := Header{
		Opcode: op, Solicited: true, Migration: true, AckRequested: true, FECN: true, BECN: true,
		PKey: 0x8001, DestQP: 0xabcdef, PSN: 0xfedcba,
	}
	set := op.Info().Headers
	if set&(HasRETH|HasAtomicETH) != 0 {
		h.VA, h.RKey = 0x0102030405060708, 0x11121314
	}
	if set&HasRETH != 0 {
		h.Length = 0x21222324
	}
	if set&HasAtomicETH != 0 {
		h.SwapAdd, h.Compare = 0x3132333435363738, 0x4142434445464748
	}
	if set&HasAETH != 0 {
		h.Syndrome, h.MSN = NAKRemoteAccess, 0x515253
	}
	if set&HasAtomicAckETH != 0 {
		h.Original = 0x6162636465666768
	}
	if set&HasImmDt != 0 {
		h.Imm = 0x71727374
	}
	if set&HasIETH != 0 {
		h.Invalidate = 0x81828384
	}
	return h
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

func TestOpcodeTable(t *testing.T) {
	for _, k := range known {
		i := k.op.Info()
		require.Equal(t, k.kind, i.Kind, k.op)
		require.Equal(t, k.headers, i.Headers.Size(), k.op)
		require.Equal(t, k.place == "first" || k.place == "only", i.First, k.op)
		require.Equal(t, k.place == "last" || k.place == "only", i.Last, k.op)
		for n := range 259 {
			require.Equal(t, k.least <= n && n <= k.most, i.Payload.OK(n, 256), "%v with %d bytes", k.op, n)
		}
		require.Equal(t, k.op <= 0x0c || k.op >= 0x13, i.Request(), k.op)
		require.NotContains(t, k.op.String(), "opcode")
	}
	require.True(t, WriteOnlyImmediate.Info().Immediate())
	require.False(t, WriteOnly.Info().Immediate())
	require.Equal(t, "opcode 0x1c", Opcode(0x1c).String())
	require.Equal(t, "Congestion Notification", CongestionNotification.String())
	require.False(t, Opcode(0x15).Info().Request())
}

func TestRoundTrip(t *testing.T) {
	for _, k := range known {
		for _, n := range []int{0, 1, 2, 3, 4, 255, 256} {
			if n < k.least || n > k.most {
				continue
			}
			h := full(k.op)
			b := h.Append([]byte("before"), data(n))[6:]
			require.Len(t, b, Size(k.op, n))
			require.Zero(t, len(b)%4)
			p, err := Parse(b)
			require.NoError(t, err, "%v with %d bytes", k.op, n)
			require.Equal(t, h, p.Header())
			require.Equal(t, data(n), p.Payload)
			require.Equal(t, -n&3, p.BTH.Pad())
			require.Equal(t, make([]byte, -n&3), b[len(b)-p.BTH.Pad():])
		}
	}
}

// The bits of one packet with everything in it, said by hand.
func TestBytes(t *testing.T) {
	h := full(WriteOnlyImmediate)
	h.FECN = false
	want := "0b" + "f0" + "8001" + "40abcdef" + "80fedcba" + // S, M, pad 3; BECN; A
		"0102030405060708" + "11121314" + "21222324" + // RETH
		"71727374" + // ImmDt
		"01000000"
	require.Equal(t, want, hex.EncodeToString(h.Append(nil, data(1))))

	h = Header{Opcode: FetchAdd, VA: 8, RKey: 1, SwapAdd: 2, Compare: 3, DestQP: 0xff000011, PSN: 0xff000012}
	want = "14" + "00" + "ffff" + "00000011" + "00000012" + "0000000000000008" + "00000001" + "0000000000000002" + "0000000000000003"
	require.Equal(t, want, hex.EncodeToString(h.Append(nil, nil)))

	h = Header{Opcode: AtomicAcknowledge, Syndrome: Ack, MSN: 0xff000001, Original: 5}
	want = "12" + "00" + "ffff" + "00000000" + "00000000" + "1f000001" + "0000000000000005"
	require.Equal(t, want, hex.EncodeToString(h.Append(nil, nil)))
}

// Put leaves nothing of what was in the buffer before.
func TestPutOverOldBytes(t *testing.T) {
	for _, k := range known {
		n := max(k.least, min(1, k.most))
		h := Header{Opcode: k.op}
		b := bytes.Repeat([]byte{0xff}, Size(k.op, n)+1)
		payload, size := h.Put(b, n)
		require.Len(t, payload, n)
		copy(payload, data(n))
		require.Equal(t, h.Append(nil, data(n)), b[:size])
		require.Equal(t, byte(0xff), b[size])
	}
}

// A packet cut anywhere is refused; what is cut off is never looked at.
func TestParseCut(t *testing.T) {
	for _, k := range known {
		n := max(k.least, min(5, k.most))
		h := full(k.op)
		b := h.Append(nil, data(n))
		for cut := range b {
			_, err := Parse(b[:cut:cut])
			var want Reason
			switch {
			case cut < BTHSize:
				want = ReasonShort
			case cut < BTHSize+k.headers:
				want = ReasonHeaders
			case cut-BTHSize-k.headers < -n&3:
				want = ReasonPad
			case cut%4 != 0:
				want = ReasonLength
			case cut == BTHSize+k.headers:
				want = ReasonPayload
			default:
				require.NoError(t, err, "%v cut at %d", k.op, cut)
				continue
			}
			if want == ReasonPayload && k.least == 0 && n%4 == 0 {
				continue
			}
			require.ErrorIs(t, err, want, "%v cut at %d", k.op, cut)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	type edit func(b []byte) []byte
	set := func(at int, v byte) edit { return func(b []byte) []byte { b[at] = v; return b } }
	grow := func(n int) edit { return func(b []byte) []byte { return append(b, make([]byte, n)...) } }
	for _, c := range []struct {
		name    string
		op      Opcode
		payload int
		edit    edit
		want    Reason
	}{
		{"version", SendOnly, 4, set(1, 0x01), ReasonVersion},
		{"congestion", SendOnly, 16, set(0, 0x81), ReasonCongestion},
		{"unreliable connection", SendOnly, 4, set(0, 0x24), ReasonTransport},
		{"unreliable datagram", SendOnly, 4, set(0, 0x64), ReasonTransport},
		{"reserved", SendOnly, 4, set(0, 0x15), ReasonOpcode},
		{"flush", SendOnly, 4, set(0, 0x1c), ReasonOpcode},
		{"atomic write", SendOnly, 4, set(0, 0x1d), ReasonOpcode},
		{"pad without payload", SendOnly, 0, set(1, 0x10), ReasonPad},
		{"pad in the middle", SendMiddle, 256, set(1, 0x10), ReasonPad},
		{"pad of an ACK", Acknowledge, 0, set(1, 0x30), ReasonPad},
		{"payload of an ACK", Acknowledge, 0, grow(4), ReasonPayload},
		{"payload of a READ request", ReadRequest, 0, grow(4), ReasonPayload},
		{"odd length", SendOnly, 4, grow(1), ReasonLength},
		{"empty last", SendLast, 4, func(b []byte) []byte { return b[:BTHSize] }, ReasonPayload},
		{"empty first", SendFirst, 256, func(b []byte) []byte { return b[:BTHSize] }, ReasonPayload},
		{"over the largest MTU", SendOnly, 4096, grow(4), ReasonPayload},
		{"over the largest MTU, first", SendFirst, 4096, grow(4), ReasonPayload},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Header{Opcode: c.op, PSN: 77}
			p, err := Parse(c.edit(h.Append(nil, data(c.payload))))
			require.ErrorIs(t, err, c.want)
			if c.want >= ReasonOpcode {
				require.Equal(t, uint32(77), p.BTH.PSN())
			}
			if c.want >= ReasonPad && c.op.Info().Headers != 0 {
				require.Len(t, p.ext, c.op.Info().Headers.Size())
			}
			require.NotPanics(t, func() { p.Header() })
		})
	}
}

func TestAbsentHeadersAreNil(t *testing.T) {
	h := Header{Opcode: SendOnly}
	p, err := Parse(h.Append(nil, nil))
	require.NoError(t, err)
	require.Nil(t, p.RETH())
	require.Nil(t, p.AtomicETH())
	require.Nil(t, p.AETH())
	require.Nil(t, p.AtomicAckETH())
	require.Nil(t, p.ImmDt())
	require.Nil(t, p.IETH())
	p = Packet{Info: WriteOnly.Info()}
	require.Nil(t, p.RETH())
}

func TestParseWire(t *testing.T) {
	path, b := dissect(t, icrcVectors[0].ip, false)
	p, icrc, err := ParseWire(b)
	require.NoError(t, err)
	require.Equal(t, ICRC(&path, b[:len(b)-4]), icrc)
	require.Equal(t, "hello", string(p.Payload))
	require.Equal(t, Header{Opcode: SendOnly, AckRequested: true, PKey: 0xffff, DestQP: 0x11, PSN: 0x010203}, p.Header())
	for cut := range BTHSize + ICRCSize {
		_, _, err := ParseWire(b[:cut])
		require.ErrorIs(t, err, ReasonShort)
	}

	_, b = dissect(t, icrcVectors[1].ip, false)
	p, _, err = ParseWire(b)
	require.NoError(t, err)
	require.Equal(t, Header{Opcode: Acknowledge, PKey: 0xffff, DestQP: 0x12, PSN: 0x010203, Syndrome: Ack, MSN: 1}, p.Header())
}

func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := range NumReasons {
		text := Reason(r).Error()
		require.NotEmpty(t, text)
		require.False(t, seen[text], text)
		seen[text] = true
	}
	require.Equal(t, "unknown reason", Reason(NumReasons).Error())
	var r Reason
	_, err := Parse(nil)
	require.True(t, errors.As(fmt.Errorf("receive: %w", err), &r))
	require.Equal(t, ReasonShort, r)
}

func TestParseAndPutDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	h := full(WriteOnlyImmediate)
	b := make([]byte, MaxPacket)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, n := h.Put(b, MaxMTU)
		p, err := Parse(b[:n])
		if err != nil || p.RETH().VA() != h.VA {
			panic("bad")
		}
		if _, err := Parse(b[:n-1]); err != ReasonLength {
			panic("good")
		}
		h.Append(b[:0], b[100:200])
	}))
}

// What Parse accepts obeys the opcode table, and Put makes the same bytes again
// but for reserved bits and the pad.
func FuzzParse(f *testing.F) {
	for _, k := range known {
		h := full(k.op)
		f.Add(h.Append(nil, data(k.least)))
		f.Add(h.Append(nil, data(min(k.most, k.least+5))))
	}
	for _, v := range icrcVectors {
		_, b := dissect(f, v.ip, v.v6)
		f.Add(b)
	}
	f.Add([]byte{0x81, 0, 0xff, 0xff, 0x40, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = ParseWire(b)
		p, err := Parse(b)
		h := p.Header()
		if err != nil {
			r, ok := err.(Reason)
			require.True(t, ok)
			require.NotZero(t, r)
			require.Less(t, int(r), NumReasons)
			return
		}
		i := p.Info
		require.NotEqual(t, KindNone, i.Kind)
		require.Len(t, b, Size(h.Opcode, len(p.Payload)))
		require.True(t, i.Payload.OK(len(p.Payload), len(p.Payload)) || i.Payload.OK(len(p.Payload), MaxMTU))
		again := h.Append(nil, p.Payload)
		q, err := Parse(again)
		require.NoError(t, err)
		if h.PKey == 0 {
			h.PKey = DefaultPKey
		}
		require.Equal(t, h, q.Header())
		require.Equal(t, p.Payload, q.Payload)
		b[4] &= 0xc0
		b[8] &= 0x80
		if h.PKey == DefaultPKey {
			b[2], b[3] = 0xff, 0xff
		}
		clear(b[len(b)-p.BTH.Pad():])
		require.Equal(t, again, b)
	})
}

func BenchmarkParse(b *testing.B) {
	h := full(WriteOnlyImmediate)
	buf := h.Append(nil, data(1024))
	for b.Loop() {
		if _, err := Parse(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	h := full(WriteOnlyImmediate)
	buf := make([]byte, MaxPacket)
	for b.Loop() {
		h.Put(buf, 1024)
	}
}
