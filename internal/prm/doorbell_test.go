package prm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func memory64(word uint64) []byte { return binary.NativeEndian.AppendUint64(nil, word) }

func TestByteOrder(t *testing.T) {
	require.Equal(t, unhex("01020304"), binary.NativeEndian.AppendUint32(nil, BE32(0x01020304)))
	require.Equal(t, unhex("0102030405060708"), memory64(BE64(0x0102030405060708)))
	require.EqualValues(t, 0x01020304, BE32(BE32(0x01020304)))
	require.Equal(t, uint64(0x0102030405060708), BE64(BE64(0x0102030405060708)))
}

func TestArm(t *testing.T) {
	require.EqualValues(t, 0x00000000, ArmValue(0, false, 0))
	require.EqualValues(t, 0x30ffffff, ArmValue(7, false, 0x1ffffff), "two bits and 24")
	require.EqualValues(t, 0x21000102, ArmValue(2, true, 0x102))
	require.Equal(t, unhex("21000102 00000401"), memory64(ArmDoorbell(0x21000102, 0x401)))

	value, cqn := ParseArmDoorbell(ArmDoorbell(0x21000102, 0x401))
	require.EqualValues(t, 0x401, cqn)
	sn, solicited, ci, ok := ParseArm(value)
	require.True(t, ok)
	require.EqualValues(t, 2, sn)
	require.True(t, solicited)
	require.EqualValues(t, 0x102, ci)
	for _, bit := range []int{25, 26, 27, 30, 31} {
		_, _, _, ok := ParseArm(1 << bit)
		require.False(t, ok, bit)
	}
	for _, bit := range []int{0, 23, 24, 28, 29} {
		_, _, _, ok := ParseArm(1 << bit)
		require.True(t, ok, bit)
	}
}

// TestSendDoorbell is of what libmlx5 stored in the register for its third READ.
func TestSendDoorbell(t *testing.T) {
	c := Ctrl{Opcode: OpRead, Index: 2, QPN: 0x1a4, DS: 3, Flags: CQEUpdate}
	wqe := make([]byte, Unit)
	PutCtrl(wqe, &c)
	word := SendDoorbell(wqe)
	require.Equal(t, unhex("000002100001a403"), memory64(word))
	c.Flags = 0
	require.Equal(t, c, ParseSendDoorbell(word))
	require.Equal(t, Ctrl{OpMod: 0xff, Index: 0xffff, Opcode: 0xff, QPN: MaxNumber, DS: 0xff}, ParseSendDoorbell(1<<64-1))
}

func TestMapOffset(t *testing.T) {
	for _, test := range []struct {
		command, index uint32
		page           int
		want           int64
	}{
		{MapRegular, 1, 4096, 0x1000},
		{MapNonCached, 0, 4096, 0x300000},
		{MapObject, 1, 4096, 0x901000}, // an offset that libmlx5 mapped
		{MapNonCached, 0, 65536, 0x3000000},
		{MapAllocate, 0x1ff, 4096, 0x106ff000},
	} {
		require.Equal(t, test.want, MapOffset(test.command, test.index, test.page))
		command, index, ok := ParseMapOffset(test.want, test.page)
		require.True(t, ok)
		require.Equal(t, test.command, command)
		require.Equal(t, test.index, index)
	}
	for _, offset := range []int64{-4096, 1, 4095, 1 << 36, 1<<63 - 1} {
		_, _, ok := ParseMapOffset(offset, 4096)
		require.False(t, ok, offset)
	}
}
