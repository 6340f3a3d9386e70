package prm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseSend takes any bytes. What is accepted must encode to the same bytes
// again, but for those the layout gives no meaning to.
func FuzzParseSend(f *testing.F) {
	for _, test := range sends {
		f.Add(unhex(test.hex))
	}
	f.Add(unhex("0000010a 0001233f 00000008 00000000"))
	f.Fuzz(func(t *testing.T, wqe []byte) {
		before := bytes.Clone(wqe)
		s := Send{Inline: []byte{1}, Segments: []Segment{{Length: 1}}, Length: 1} // of the entry before
		err := ParseSend(wqe, &s)
		require.Equal(t, before, wqe)
		if err != nil {
			requireWQEError(t, err)
			return
		}
		again := encode(&s)
		require.Len(t, again, int(s.DS)*Unit)
		used := before[:len(again)]
		if s.Opcode == OpFetchAdd {
			clear(used[40:48])
		}
		if n := len(s.Inline); n > 0 {
			clear(used[len(used)-InlineUnits(n)*Unit+InlineHeader+n:])
		}
		require.Equal(t, used, again)

		length := uint64(len(s.Inline))
		for _, d := range s.Segments {
			require.NotZero(t, d.Length)
			require.LessOrEqual(t, d.Length, uint32(MaxLength))
			length += uint64(d.Length)
		}
		require.Equal(t, length, s.Length)
		require.False(t, len(s.Inline) > 0 && len(s.Segments) > 0)
	})
}

func requireWQEError(t *testing.T, err error) {
	t.Helper()
	var e *WQEError
	require.True(t, errors.As(err, &e))
	require.NotZero(t, e.Reason)
	require.NotContains(t, e.Error(), "reason")
}

// FuzzEncodeSend makes entries of any fields that are in range, which must come
// back as they were.
func FuzzEncodeSend(f *testing.F) {
	f.Add(uint8(1), uint16(2), uint32(3), uint32(4), uint64(5), uint32(6), []byte("segments or inline"), true)
	f.Add(uint8(6), uint16(65535), uint32(MaxNumber), uint32(4), uint64(5), uint32(6), []byte("a read of some"), false)
	f.Add(uint8(7), uint16(0), uint32(0), uint32(4), uint64(5), uint32(6), []byte{}, false)
	opcodes := []Opcode{OpNop, OpSendInv, OpWrite, OpWriteImm, OpSend, OpSendImm, OpRead, OpCompareSwap, OpFetchAdd}
	f.Fuzz(func(t *testing.T, op uint8, index uint16, qpn, imm uint32, remote uint64, rkey uint32, data []byte, inline bool) {
		s := Send{Ctrl: Ctrl{Opcode: opcodes[int(op)%len(opcodes)], Index: index, QPN: qpn & MaxNumber, Flags: op & controlFlags, Imm: imm}}
		if s.Opcode.HasRemote() {
			s.RemoteAddr, s.RKey = remote, rkey
		}
		switch {
		case s.Opcode == OpNop:
		case s.Opcode.IsAtomic():
			s.SwapAdd = ^remote
			if s.Opcode == OpCompareSwap {
				s.Compare = remote + 1
			}
			s.Segments = []Segment{{Addr: remote, LKey: imm, Length: 8}}
			s.Length = 8
		case inline && s.Opcode != OpRead && len(data) > 0:
			s.Inline = data[:min(len(data), (MaxUnits-2)*Unit-InlineHeader)]
			s.Length = uint64(len(s.Inline))
		default:
			for ; len(data) >= 4 && len(s.Segments) < MaxUnits-2; data = data[4:] {
				length := binary.LittleEndian.Uint32(data)&MaxLength | 1
				s.Segments = append(s.Segments, Segment{Addr: remote, LKey: length ^ imm, Length: length})
				s.Length += uint64(length)
			}
		}
		s.DS = uint8(len(encode(&s)) / Unit)
		wqe := encode(&s)

		var got Send
		require.NoError(t, ParseSend(wqe, &got))
		requireSend(t, &s, &got)
	})
}

func FuzzParseReceive(f *testing.F) {
	f.Add(unhex("00001000 00180142 000055696f6aa000"))
	f.Add(unhex("00000010 00000042 0000000000001000 00000000 00000100 0000000000000000 ffffffff ffffffff ffffffffffffffff"))
	f.Add(unhex("00001234 00000000 0000000000000000 00000010 00000042 0000000000001000"))
	f.Fuzz(func(t *testing.T, stride []byte) {
		list := []Segment{{Length: 1}}
		if err := ParseReceive(stride, &list); err != nil {
			requireWQEError(t, err)
		} else {
			again := make([]byte, len(stride))
			for i, d := range list {
				PutData(again[i*Unit:], d)
			}
			end := len(list) * Unit
			if end < len(again) {
				PutTerminator(again[end:])
				end += Unit
			}
			require.Equal(t, stride[:end], again[:end])
		}
		if next, err := ParseShared(stride, &list); err != nil {
			requireWQEError(t, err)
		} else {
			link := make([]byte, Unit)
			PutNext(link, next)
			require.Equal(t, stride[:Unit], link)
		}
	})
}

// FuzzCQE reads any entry, and writes what it read: the accessors of both must
// agree, and the written one has nothing else in it.
func FuzzCQE(f *testing.F) {
	for _, test := range completions {
		f.Add(unhex(test.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < CQESize {
			return
		}
		c := completion(b)
		e := put(c)
		require.Equal(t, c, completion(e))
		require.Zero(t, e.Format())
		require.LessOrEqual(t, e.UserIndex(), uint32(MaxNumber))
		require.Equal(t, OwnByte(LastWord(c)), e[CQESize-1])
	})
}

// FuzzDoorbell takes any words from the registers.
func FuzzDoorbell(f *testing.F) {
	f.Add(uint64(0x03a4010010020000))
	f.Fuzz(func(t *testing.T, word uint64) {
		value, cqn := ParseArmDoorbell(word)
		require.Equal(t, word, ArmDoorbell(value, cqn))
		if sn, solicited, ci, ok := ParseArm(value); ok {
			require.Equal(t, value, ArmValue(uint32(sn), solicited, ci))
		}
		c := ParseSendDoorbell(word)
		wqe := make([]byte, Unit)
		PutCtrl(wqe, &c)
		require.Equal(t, word, SendDoorbell(wqe))
		command, index, ok := ParseMapOffset(int64(word), PageSize)
		if ok {
			require.EqualValues(t, word, MapOffset(command, index, PageSize))
		}
	})
}
