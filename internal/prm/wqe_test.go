package prm

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unhex is the bytes of a hexadecimal string, in which spaces do not count.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// encode writes s as a driver would, in DS units.
func encode(s *Send) []byte {
	wqe := make([]byte, MaxUnits*Unit)
	PutCtrl(wqe, &s.Ctrl)
	at := Unit
	if s.Opcode.HasRemote() {
		PutRemote(wqe[at:], s.RemoteAddr, s.RKey)
		at += Unit
	}
	if s.Opcode.IsAtomic() {
		PutAtomic(wqe[at:], s.SwapAdd, s.Compare)
		at += Unit
	}
	for _, d := range s.Segments {
		PutData(wqe[at:], d)
		at += Unit
	}
	if len(s.Inline) > 0 {
		PutInlineHeader(wqe[at:], len(s.Inline))
		copy(wqe[at+InlineHeader:], s.Inline)
		at += InlineUnits(len(s.Inline)) * Unit
	}
	return wqe[:at]
}

// sends are entries and their bytes. The first four were posted by libmlx5 for
// perftest's ib_read_lat, ib_write_bw and ib_send_lat and for ibv_rc_pingpong.
var sends = []struct {
	name string
	hex  string
	send Send
}{
	{
		"libmlx5 read",
		"00000210 0001a403 00000008 00000000 00005555efd58000 00180242 00000000 00000002 00180142 0000564dd71ac000",
		Send{
			Ctrl:       Ctrl{Opcode: OpRead, Index: 2, QPN: 0x1a4, DS: 3, Flags: CQEUpdate},
			RemoteAddr: 0x5555efd58000, RKey: 0x180242,
			Segments: []Segment{{Addr: 0x564dd71ac000, LKey: 0x180142, Length: 2}},
			Length:   2,
		},
	},
	{
		"libmlx5 write",
		"00000308 0001a403 00000008 00000000 00007f95ab7d0000 00180142 00000000 00010000 00180242 00007f5109765000",
		Send{
			Ctrl:       Ctrl{Opcode: OpWrite, Index: 3, QPN: 0x1a4, DS: 3, Flags: CQEUpdate},
			RemoteAddr: 0x7f95ab7d0000, RKey: 0x180142,
			Segments: []Segment{{Addr: 0x7f5109765000, LKey: 0x180242, Length: 65536}},
			Length:   65536,
		},
	},
	{
		"libmlx5 inline send",
		"0000040a 0001a302 00000008 00000000 80000002 994a0000 00000000 00000000",
		Send{
			Ctrl:   Ctrl{Opcode: OpSend, Index: 4, QPN: 0x1a3, DS: 2, Flags: CQEUpdate},
			Inline: []byte{0x99, 0x4a},
			Length: 2,
		},
	},
	{
		"libmlx5 send",
		"0000010a 0001a402 00000008 00000000 00001000 00180242 000056386a41c000",
		Send{
			Ctrl:     Ctrl{Opcode: OpSend, Index: 1, QPN: 0x1a4, DS: 2, Flags: CQEUpdate},
			Segments: []Segment{{Addr: 0x56386a41c000, LKey: 0x180242, Length: 4096}},
			Length:   4096,
		},
	},
	{
		"nop",
		"00ffff00 ffffff01 00000008 00000000",
		Send{Ctrl: Ctrl{Opcode: OpNop, Index: 0xffff, QPN: MaxNumber, DS: 1, Flags: CQEUpdate}},
	},
	{
		"empty send",
		"0000010a 00012301 00000002 00000000",
		Send{Ctrl: Ctrl{Opcode: OpSend, Index: 1, QPN: 0x123, DS: 1, Flags: Solicited}},
	},
	{
		"empty write",
		"00000508 00012302 00000008 00000000 0102030405060708 090a0b0c 00000000",
		Send{
			Ctrl:       Ctrl{Opcode: OpWrite, Index: 5, QPN: 0x123, DS: 2, Flags: CQEUpdate},
			RemoteAddr: 0x0102030405060708, RKey: 0x090a0b0c,
		},
	},
	{
		"send with immediate of two segments",
		"0000070b 00012303 0000000a deadbeef 00000010 00000042 0000000000001000 7fffffff 00000043 ffffffff00000000",
		Send{
			Ctrl: Ctrl{Opcode: OpSendImm, Index: 7, QPN: 0x123, DS: 3, Flags: CQEUpdate | Solicited, Imm: 0xdeadbeef},
			Segments: []Segment{
				{Addr: 0x1000, LKey: 0x42, Length: 16},
				{Addr: 0xffffffff00000000, LKey: 0x43, Length: MaxLength},
			},
			Length: 16 + MaxLength,
		},
	},
	{
		"send with invalidate",
		"00000701 00012301 00000000 00180142",
		Send{Ctrl: Ctrl{Opcode: OpSendInv, Index: 7, QPN: 0x123, DS: 1, Imm: 0x180142}},
	},
	{
		"inline write with immediate that fills its units",
		"00000809 00012304 00000008 01020304 0000000000002000 00000077 00000000 8000001c 00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617 18191a1b",
		Send{
			Ctrl:       Ctrl{Opcode: OpWriteImm, Index: 8, QPN: 0x123, DS: 4, Flags: CQEUpdate, Imm: 0x01020304},
			RemoteAddr: 0x2000, RKey: 0x77,
			Inline: unhex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b"),
			Length: 28,
		},
	},
	{
		"compare and swap",
		"00000911 00012304 00000088 00000000 0000000000003000 00000078 00000000 1111111111111111 2222222222222222 00000008 00000044 0000000000004000",
		Send{
			Ctrl:       Ctrl{Opcode: OpCompareSwap, Index: 9, QPN: 0x123, DS: 4, Flags: CQEUpdate | Fence},
			RemoteAddr: 0x3000, RKey: 0x78, SwapAdd: 0x1111111111111111, Compare: 0x2222222222222222,
			Segments: []Segment{{Addr: 0x4000, LKey: 0x44, Length: 8}},
			Length:   8,
		},
	},
	{
		"fetch and add",
		"00000a12 00012304 00000020 00000000 0000000000003000 00000078 00000000 0000000000000001 0000000000000000 00000008 00000044 0000000000004000",
		Send{
			Ctrl:       Ctrl{Opcode: OpFetchAdd, Index: 10, QPN: 0x123, DS: 4, Flags: SmallFence},
			RemoteAddr: 0x3000, RKey: 0x78, SwapAdd: 1,
			Segments: []Segment{{Addr: 0x4000, LKey: 0x44, Length: 8}},
			Length:   8,
		},
	},
}

func TestSendVectors(t *testing.T) {
	var got Send // one for all, as the NIC has it
	for _, test := range sends {
		t.Run(test.name, func(t *testing.T) {
			want := unhex(test.hex)
			require.Equal(t, want, encode(&test.send))
			require.NoError(t, ParseSend(want, &got))
			requireSend(t, &test.send, &got)
			// Room behind the entry, as in a block, is not looked at.
			require.NoError(t, ParseSend(append(want, 1, 2, 3), &got))
			requireSend(t, &test.send, &got)
			for n := range len(want) {
				err := ParseSend(want[:n], &got)
				var e *WQEError
				require.ErrorAs(t, err, &e)
				require.Equal(t, Truncated, e.Reason)
			}
		})
	}
}

func requireSend(t *testing.T, want, got *Send) {
	t.Helper()
	require.Equal(t, want.Ctrl, got.Ctrl)
	require.Equal(t, want.RemoteAddr, got.RemoteAddr)
	require.Equal(t, want.RKey, got.RKey)
	require.Equal(t, want.SwapAdd, got.SwapAdd)
	require.Equal(t, want.Compare, got.Compare)
	require.Equal(t, len(want.Segments), len(got.Segments))
	require.ElementsMatch(t, want.Segments, got.Segments)
	require.Equal(t, len(want.Inline), len(got.Inline))
	require.Equal(t, string(want.Inline), string(got.Inline))
	require.Equal(t, want.Length, got.Length)
}

// TestStaleBytes is of the bytes that libmlx5 leaves as they were in the ring: the
// immediate of operations that have none, the compare operand of a fetch-and-add,
// the padding of inline data.
func TestStaleBytes(t *testing.T) {
	var s Send
	require.NoError(t, ParseSend(unhex("0000010a 00012301 00000008 ffffffff"), &s))
	require.False(t, s.Opcode.HasImm())
	require.NoError(t, ParseSend(unhex("00000a12 00012304 00000008 00000000 0000000000003000 00000078 00000000"+
		"0000000000000001 ffffffffffffffff 00000008 00000044 0000000000004000"), &s))
	require.Zero(t, s.Compare)
	require.NoError(t, ParseSend(unhex("0000040a 0001a302 00000008 00000000 80000002 994affff ffffffff ffffffff"), &s))
	require.Equal(t, []byte{0x99, 0x4a}, s.Inline)
}

func TestSendErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		hex    string
		reason Reason
		offset int
		value  uint64
	}{
		{"opcode", "0000010d 00012301 00000008 00000000", UnknownOpcode, 3, 0x0d},
		{"memory key update", "00000125 00012301 00000008 00000000", UnknownOpcode, 3, 0x25},
		{"masked atomic", "08000111 00012301 00000008 00000000", UnknownModifier, 0, 8},
		{"DS of 7 bits", "0000010a 00012341 00000008 00000000", ReservedBits, 7, 0x41},
		{"DS of 8 bits", "0000010a 00012381 00000008 00000000", ReservedBits, 7, 0x81},
		{"no DS", "0000010a 00012300 00000008 00000000", BadSize, 7, 0},
		{"DS beyond the bytes", "0000010a 0001233f 00000008 00000000", Truncated, 4, 16},
		{"signature", "0000010a 00012301 01000008 00000000", ReservedBits, 8, 0x010000},
		{"stream", "0000010a 00012301 00000108 00000000", ReservedBits, 8, 0x000001},
		{"flag 0x01", "0000010a 00012301 00000009 00000000", UnknownFlags, 11, 0x09},
		{"flag 0x04", "0000010a 00012301 0000000c 00000000", UnknownFlags, 11, 0x0c},
		{"flag 0x10", "0000010a 00012301 00000018 00000000", UnknownFlags, 11, 0x18},
		{"flag 0x40", "0000010a 00012301 00000048 00000000", UnknownFlags, 11, 0x48},
		{"long nop", "00000100 00012302 00000008 00000000 00000001 00000001 0000000000000001", BadSize, 7, 2},
		{"write without remote", "00000108 00012301 00000008 00000000", BadSize, 7, 1},
		{"remote's reserved word", "00000108 00012302 00000008 00000000 0000000000001000 00000001 00000100", ReservedBits, 28, 0x100},
		{"no length", "0000010a 00012302 00000008 00000000 00000000 00000001 0000000000001000", EmptySegment, 16, 0},
		{
			"no length in the second", "0000010a 00012303 00000008 00000000 00000001 00000001 0000000000001000 00000000 00000100 0000000000000000",
			EmptySegment, 32, 0,
		},
		{
			"inline behind a segment", "0000010a 00012303 00000008 00000000 00000001 00000001 0000000000001000 80000001 00000100 0000000000000000",
			BadInline, 32, 0x80000001,
		},
		{
			"inline read", "00000110 00012303 00000008 00000000 0000000000001000 00000001 00000000 80000001 00000000 00000000 00000000",
			BadInline, 32, 0x80000001,
		},
		{"inline of no bytes", "0000010a 00012302 00000008 00000000 80000000 00000000 00000000 00000000", EmptySegment, 16, 0x80000000},
		{"inline too long", "0000010a 00012302 00000008 00000000 8000000d 00000000 00000000 00000000", InlineTooLong, 16, 13},
		{"inline far too long", "0000010a 00012302 00000008 00000000 ffffffff 00000000 00000000 00000000", InlineTooLong, 16, MaxLength},
		{
			"inline too short", "0000010a 00012303 00000008 00000000 8000000c 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
			BadSize, 7, 3,
		},
		{"atomic without remote", "00000111 00012301 00000008 00000000", BadSize, 7, 1},
		{"atomic without operands", "00000112 00012302 00000008 00000000 0000000000003000 00000078 00000000", BadSize, 7, 2},
		{
			"atomic without data", "00000111 00012303 00000008 00000000 0000000000003000 00000078 00000000 0000000000000001 0000000000000000",
			BadSize, 7, 3,
		},
		{
			"atomic of two segments", "00000111 00012305 00000008 00000000 0000000000003000 00000078 00000000 0000000000000001 0000000000000000" +
				"00000004 00000044 0000000000004000 00000004 00000044 0000000000004000", BadSize, 7, 5,
		},
		{
			"atomic of 4 bytes", "00000112 00012304 00000008 00000000 0000000000003000 00000078 00000000 0000000000000001 0000000000000000" +
				"00000004 00000044 0000000000004000", AtomicLength, 48, 4,
		},
		{
			"inline atomic", "00000112 00012304 00000008 00000000 0000000000003000 00000078 00000000 0000000000000001 0000000000000000" +
				"80000008 00000044 0000000000004000", AtomicLength, 48, 0x80000008,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Send
			err := ParseSend(unhex(test.hex), &s)
			var e *WQEError
			require.ErrorAs(t, err, &e)
			require.Equal(t, WQEError{test.reason, s.Opcode, test.offset, test.value}, *e)
			require.ErrorContains(t, err, test.reason.String())
		})
	}
}

func TestReceiveVectors(t *testing.T) {
	list := make([]Segment, 0, 1)
	for _, test := range []struct {
		name string
		hex  string
		want []Segment
	}{
		{"one of one", "00001000 00180142 000055696f6aa000", []Segment{{Addr: 0x55696f6aa000, LKey: 0x180142, Length: 4096}}},
		{"none of one", "00000000 00000100 0000000000000000", []Segment{}},
		{
			"one of four, stale ones behind it",
			"00000010 00000042 0000000000001000 00000000 00000100 0000000000000000 ffffffff ffffffff ffffffffffffffff 00000000 00000001 00000000ffffffff",
			[]Segment{{Addr: 0x1000, LKey: 0x42, Length: 16}},
		},
		{
			"two of two", "00000010 00000042 0000000000001000 7fffffff 00000043 0000000000002000",
			[]Segment{{Addr: 0x1000, LKey: 0x42, Length: 16}, {Addr: 0x2000, LKey: 0x43, Length: MaxLength}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, ParseReceive(unhex(test.hex), &list))
			require.Equal(t, test.want, list)

			shared := append(unhex("0000 1234 00000000 0000000000000000"), unhex(test.hex)...)
			next, err := ParseShared(shared, &list)
			require.NoError(t, err)
			require.EqualValues(t, 0x1234, next)
			require.Equal(t, test.want, list)
		})
	}
}

func TestReceiveErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		hex    string
		reason Reason
		offset int
		value  uint64
	}{
		{"nothing", "", BadSize, 0, 0},
		{"half a unit", "00000010 00000042", BadSize, 0, 8},
		{"a unit and a half", "00000010 00000042 0000000000001000 00000010 00000042", BadSize, 0, 24},
		{"no length", "00000000 00000042 0000000000001000", EmptySegment, 0, 0x42},
		{"no length, no key", "00000010 00000042 0000000000001000 00000000 00000000 0000000000000000", EmptySegment, 16, 0},
		{"inline", "80000010 00000042 0000000000001000", BadInline, 0, 0x80000010},
		{"address of a terminator", "00000000 00000100 0000000000000001", ReservedBits, 8, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var list []Segment
			var e *WQEError
			require.ErrorAs(t, ParseReceive(unhex(test.hex), &list), &e)
			require.Equal(t, WQEError{test.reason, 0, test.offset, test.value}, *e)

			if test.reason != BadSize {
				_, err := ParseShared(append(make([]byte, Unit), unhex(test.hex)...), &list)
				require.ErrorAs(t, err, &e)
				require.Equal(t, WQEError{test.reason, 0, test.offset + Unit, test.value}, *e)
			}
		})
	}
}

func TestSharedErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		hex    string
		reason Reason
		value  uint64
	}{
		{"link only", "00001234 00000000 0000000000000000", BadSize, 16},
		{"before the link", "01001234 00000000 0000000000000000 00000010 00000042 0000000000001000", ReservedBits, 0x01000000 << 32},
		{"signature", "00001234 01000000 0000000000000000 00000010 00000042 0000000000001000", ReservedBits, 0x01000000},
		{"at the end", "00001234 00000000 0000000000000001 00000010 00000042 0000000000001000", ReservedBits, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var list []Segment
			var e *WQEError
			_, err := ParseShared(unhex(test.hex), &list)
			require.ErrorAs(t, err, &e)
			require.Equal(t, WQEError{test.reason, 0, 0, test.value}, *e)
		})
	}
}

func TestReceiveEncoders(t *testing.T) {
	b := unhex("ffffffff ffffffff ffffffff ffffffff ff")
	PutTerminator(b)
	require.Equal(t, unhex("00000000 00000100 00000000 00000000 ff"), b)
	b = unhex("ffffffff ffffffff ffffffff ffffffff ff")
	PutNext(b, 0x1234)
	require.Equal(t, unhex("00001234 00000000 00000000 00000000 ff"), b)
}

// TestEncodersNeedTheirRoom keeps an encoder from writing a part of a segment.
func TestEncodersNeedTheirRoom(t *testing.T) {
	short := make([]byte, Unit-1)
	require.Panics(t, func() { PutCtrl(short, &Ctrl{}) })
	require.Panics(t, func() { PutRemote(short, 1, 1) })
	require.Panics(t, func() { PutAtomic(short, 1, 1) })
	require.Panics(t, func() { PutData(short, Segment{Length: 1}) })
	require.Panics(t, func() { PutTerminator(short) })
	require.Panics(t, func() { PutNext(short, 1) })
	require.Panics(t, func() { PutInlineHeader(short[:InlineHeader-1], 1) })
	require.Equal(t, make([]byte, Unit-1), short)
}

func TestInlineUnits(t *testing.T) {
	for n, want := range map[int]int{1: 1, 12: 1, 13: 2, 28: 2, 29: 3, 60: 4} {
		require.Equal(t, want, InlineUnits(n), n)
	}
}

func TestSizes(t *testing.T) {
	require.Equal(t, 64, SendSize(0, 0))
	require.Equal(t, 64, SendSize(2, 28))
	require.Equal(t, 128, SendSize(2, 29))
	require.Equal(t, 128, SendSize(3, 0))
	require.Equal(t, 1024, SendSize(62, 0))
	for segments, want := range map[int]int{0: 4, 1: 4, 2: 5, 3: 6, 4: 6, 5: 7, 32: 9} {
		require.Equal(t, want, ReceiveShift(segments), segments)
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, "RDMA_WRITE", OpWrite.String())
	require.Equal(t, "opcode 0x25", Opcode(0x25).String())
	require.Equal(t, "responder SEND", CQEReceive.String())
	require.Equal(t, "completion opcode 7", CQEOpcode(7).String())
	require.Equal(t, "flushed", SyndromeFlushed.String())
	require.Equal(t, "syndrome 0x77", Syndrome(0x77).String())
	require.Equal(t, "reason 0", Reason(0).String())
	require.Equal(t, "reason 200", Reason(200).String())

	// Names differ, and every known value has one.
	names := map[string]bool{}
	for v := range 256 {
		for _, s := range []string{Opcode(v).String(), CQEOpcode(v).String(), Syndrome(v).String(), Reason(v).String()} {
			require.False(t, names[s], s)
			names[s] = true
		}
		require.Equal(t, Opcode(v).known(), !strings.HasPrefix(Opcode(v).String(), "opcode"), v)
	}
}
