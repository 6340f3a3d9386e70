package prm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func testAddress() Address {
	return Address{QKey: 0x80010000, QPN: 0x123456, Rate: 9, ServiceLevel: 6, PathBits: 0x55, LID: 0xc0de,
		MAC: [6]byte{1, 2, 3, 4, 5, 6}, TrafficClass: 0x28, HopLimit: 64, GRH: true, SourceIndex: 0xab, FlowLabel: 0xfedcb,
		GID: [16]byte{10: 0xff, 0xff, 10, 0, 0, 1}}
}

// datagram is an entry with one data segment.
func datagram(op Opcode, units uint8) []byte {
	w := make([]byte, 5*Unit)
	PutCtrl(w, &Ctrl{Opcode: op, Index: 7, QPN: 0x99, DS: units, Flags: CQEUpdate, Imm: 5})
	a := testAddress()
	PutAddress(w[Unit:], &a)
	PutData(w[Unit+AddressSize:], Segment{Addr: 0x1000, LKey: 0x42, Length: 100})
	return w
}

// The bytes are those of rdma-core's struct mlx5_wqe_av.
func TestAddressBytes(t *testing.T) {
	require.Equal(t, []byte{
		0x80, 0x01, 0, 0, 0, 0, 0, 0, 0x80, 0x12, 0x34, 0x56, 0x96, 0x55, 0xc0, 0xde,
		0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0x28, 64, 0x4a, 0xbf, 0xed, 0xcb,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1,
	}, datagram(OpSend, 5)[Unit:][:AddressSize])
}

func TestParseDatagram(t *testing.T) {
	var s Send
	for _, op := range []Opcode{OpSend, OpSendImm} {
		require.NoError(t, ParseDatagram(datagram(op, 5), &s))
		require.Equal(t, testAddress(), s.Address)
		require.Equal(t, []Segment{{Addr: 0x1000, LKey: 0x42, Length: 100}}, s.Segments)
		require.EqualValues(t, 100, s.Length)
	}
	require.NoError(t, ParseDatagram(datagram(OpSend, 4), &s))
	require.Zero(t, s.Length)
	require.NoError(t, ParseDatagram(datagram(OpNop, 1), &s))
	require.Zero(t, s.Address)

	inline := datagram(OpSend, 5)
	PutInlineHeader(inline[4*Unit:], 3)
	copy(inline[4*Unit+4:], "abc")
	require.NoError(t, ParseDatagram(inline, &s))
	require.Equal(t, "abc", string(s.Inline))
}

func TestBadDatagrams(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w []byte) []byte
		want   Reason
	}{
		"nothing":       {func(w []byte) []byte { return w[:15] }, Truncated},
		"truncated":     {func(w []byte) []byte { return w[:79] }, Truncated},
		"write":         {func(w []byte) []byte { w[3] = byte(OpWrite); return w }, UnknownOpcode},
		"invalidate":    {func(w []byte) []byte { w[3] = byte(OpSendInv); return w }, UnknownOpcode},
		"flags":         {func(w []byte) []byte { w[11] = 1; return w }, UnknownFlags},
		"no address":    {func(w []byte) []byte { w[7] = 3; return w }, BadSize},
		"short address": {func(w []byte) []byte { w[24] = 0; return w }, ShortAddress},
		"beside number": {func(w []byte) []byte { w[24] = 0x81; return w }, ReservedBits},
		"behind key":    {func(w []byte) []byte { w[20] = 1; return w }, ReservedBits},
		"before MAC":    {func(w []byte) []byte { w[35] = 1; return w }, ReservedBits},
		"beside GRH":    {func(w []byte) []byte { w[44] |= 0x80; return w }, ReservedBits},
		"empty segment": {func(w []byte) []byte { clear(w[64:68]); return w }, EmptySegment},
	} {
		var s Send
		var e *WQEError
		err := ParseDatagram(tt.change(datagram(OpSend, 5)), &s)
		require.True(t, errors.As(err, &e), name)
		require.Equal(t, tt.want, e.Reason, name)
	}
}

// Whatever an entry holds, it is refused for a reason or its parts lie within it.
func FuzzParseDatagram(f *testing.F) {
	f.Add(datagram(OpSend, 5))
	f.Add(datagram(OpSendImm, 4))
	f.Add(datagram(OpNop, 1))
	f.Fuzz(func(t *testing.T, w []byte) {
		var s Send
		if err := ParseDatagram(w, &s); err != nil {
			require.IsType(t, &WQEError{}, err)
			return
		}
		total := uint64(len(s.Inline))
		for _, d := range s.Segments {
			require.NotZero(t, d.Length)
			total += uint64(d.Length)
		}
		require.Equal(t, total, s.Length)
		if s.Opcode != OpNop {
			var v [AddressSize]byte
			PutAddress(v[:], &s.Address)
			require.Equal(t, w[Unit:][:AddressSize], v[:])
		}
	})
}
