package prm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// put is a whole entry as the NIC leaves it in memory.
func put(c Completion) CQE {
	e := make(CQE, CQESize)
	PutCQE(e, c)
	binary.NativeEndian.PutUint32(e[CQELastWord:], LastWord(c))
	return e
}

// completions are entries and their bytes. The first four were understood by
// libmlx5 as what they are said to be.
var completions = []struct {
	name string
	hex  string
	c    Completion
}{
	{
		"read", "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000" +
			"00000000 00000000 00000000 00000002 00000000 05963f30 100001a4 00010000",
		Completion{
			Opcode: CQERequester, QPN: 0x1a4, SendOpcode: OpRead, WQECounter: 1, ByteCount: 2, Timestamp: 0x05963f30,
		},
	},
	{
		"read, next pass", "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000" +
			"00000000 00000000 00000000 00000002 00000000 05964686 100001a4 00020001",
		Completion{
			Opcode: CQERequester, Owner: 1, QPN: 0x1a4, SendOpcode: OpRead, WQECounter: 2, ByteCount: 2, Timestamp: 0x05964686,
		},
	},
	{
		"receive", "00000000 00000000 00000000 00000000 00000000 00000000 100001a4 00000000" +
			"00000000 00000000 00000000 00001000 00000000 047112d2 000001a3 00010020",
		Completion{
			Opcode: CQEReceive, QPN: 0x1a3, WQECounter: 1, ByteCount: 4096, RemoteQPN: 0x1a4, GRH: true, Timestamp: 0x047112d2,
		},
	},
	{
		"write", "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000" +
			"00000000 00000000 00000000 00010000 00000000 09607bbc 080001a4 00020000",
		Completion{
			Opcode: CQERequester, QPN: 0x1a4, SendOpcode: OpWrite, WQECounter: 2, ByteCount: 65536, Timestamp: 0x09607bbc,
		},
	},
	{
		"solicited immediate", "00000000 00000000 00000000 00000000 00000000 00000000 00abcdef 00000000" +
			"00fffffe 01020304 00000000 00000007 0102030405060708 00fedcba ffff0033",
		Completion{
			Opcode: CQEReceiveImm, Owner: 1, Solicited: true, QPN: 0xfedcba, UserIndex: 0xfffffe, WQECounter: 0xffff,
			ByteCount: 7, Imm: 0x01020304, RemoteQPN: 0xabcdef, Timestamp: 0x0102030405060708,
		},
	},
	{
		"requester error", "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000" +
			"00000005 00000000 00000000 00000000 00000000 00008813 080001a4 001200d0",
		Completion{
			Opcode: CQERequesterError, QPN: 0x1a4, SendOpcode: OpWrite, UserIndex: 5, WQECounter: 0x12,
			Syndrome: SyndromeRemoteAccess, VendorSyndrome: 0x88,
		},
	},
	{
		"responder error", "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000" +
			"00000006 00000000 00000000 00000000 00000000 00000005 000001a4 001300e1",
		Completion{
			Opcode: CQEResponderError, Owner: 1, QPN: 0x1a4, UserIndex: 6, WQECounter: 0x13, Syndrome: SyndromeFlushed,
		},
	},
}

func TestCQEVectors(t *testing.T) {
	for _, test := range completions {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, unhex(test.hex), []byte(put(test.c)))
			require.Equal(t, test.c, completion(unhex(test.hex)))
		})
	}
}

// completion is what the accessors read.
func completion(e CQE) Completion {
	c := Completion{
		Opcode: e.Opcode(), Owner: e.Owner(), Solicited: e.Solicited(), QPN: e.QPN(), SendOpcode: e.SendOpcode(),
		UserIndex: e.UserIndex(), WQECounter: e.WQECounter(),
	}
	if c.Opcode.IsError() {
		c.Syndrome, c.VendorSyndrome = e.Syndrome(), e.VendorSyndrome()
		return c
	}
	c.ByteCount, c.Imm, c.RemoteQPN, c.GRH, c.Timestamp = e.ByteCount(), e.Imm(), e.RemoteQPN(), e.HasGRH(), e.Timestamp()
	return c
}

// TestInlineCQE is the entry of a queue pair that asked for messages in
// completions, which only a careless driver gets.
func TestInlineCQE(t *testing.T) {
	e := CQE(unhex("994a0000 00000000 00000000 00000000 00000000 00000000 100001a4 00000000" +
		"00000000 00000000 00000000 00000002 00000000 063b139a 000001a3 00000024"))
	require.EqualValues(t, 1, e.Format())
	require.Equal(t, CQEReceive, e.Opcode())
	require.Zero(t, e.Owner())
	require.False(t, e.Solicited())
}

func TestSRQNumber(t *testing.T) {
	e := put(Completion{Opcode: CQEReceive, UserIndex: 0x123456})
	require.EqualValues(t, 0x123456, e.SRQN())
}

// TestNumbersStayInTheirBits keeps wide numbers out of what shares their words.
func TestNumbersStayInTheirBits(t *testing.T) {
	e := put(Completion{QPN: 0xff000001, UserIndex: 0xff000002, RemoteQPN: 0xff000003, Owner: 2})
	require.Equal(t, Opcode(0), e.SendOpcode())
	require.EqualValues(t, 1, e.QPN())
	require.Equal(t, []byte{0, 0, 0, 2}, []byte(e[32:36]))
	require.False(t, e.HasGRH())
	require.Equal(t, CQERequester, e.Opcode())
	require.Zero(t, e.Owner())
	require.False(t, e.Solicited())

	e[cqeRemote] = 0x0f // the priority
	require.False(t, e.HasGRH())
	e[cqeRemote] = 0x20
	require.True(t, e.HasGRH())
}

// TestPutCQELeavesTheLastWord is what makes an entry valid only once it is whole.
func TestPutCQELeavesTheLastWord(t *testing.T) {
	e := make([]byte, CQESize+1)
	for i := range e {
		e[i] = 0xf0
	}
	PutCQE(e, completions[4].c)
	require.Equal(t, unhex("f0f0f0f0 f0"), e[CQELastWord:])
	require.Equal(t, unhex(completions[4].hex)[:CQELastWord], e[:CQELastWord])
	require.Panics(t, func() { PutCQE(e[:CQESize-1], Completion{}) })
}

func TestFresh(t *testing.T) {
	e := make(CQE, CQESize)
	e[CQESize-1] = CQEFresh
	require.Equal(t, CQEInvalid, e.Opcode())
	require.Zero(t, e.Owner())
	require.EqualValues(t, 0xf0, CQEFresh)
}

func TestOwnByte(t *testing.T) {
	e := put(completions[4].c)
	require.EqualValues(t, 0x33, OwnByte(binary.NativeEndian.Uint32(e[CQELastWord:])))
}

func TestKindsOfCompletions(t *testing.T) {
	for v := range 16 {
		o := CQEOpcode(v)
		require.Equal(t, v == 13 || v == 14, o.IsError(), v)
		require.Equal(t, v == 0 || v == 13, o.IsSend(), v)
	}
}

// Data in a completion takes the place of its first fields, or lies in front of it.
func TestPutInlineCQE(t *testing.T) {
	data := []byte("some data in the completion")
	c := Completion{Opcode: CQEReceive, QPN: 0x123456, RemoteQPN: 0xabcdef, GRH: true, ByteCount: uint32(len(data)),
		Inline: data, Format: CQEInline32, UserIndex: 0x77}
	var e [CQESize]byte
	for i := range e {
		e[i] = 0xee
	}
	PutCQE(e[:], c)
	binary.NativeEndian.PutUint32(e[CQELastWord:], LastWord(c))
	require.Equal(t, data, e[:len(data)])
	require.Equal(t, make([]byte, Inline32-len(data)), e[len(data):Inline32])
	require.Equal(t, CQEInline32, CQE(e[:]).Format())
	require.Equal(t, CQEReceive, CQE(e[:]).Opcode())
	require.EqualValues(t, 0x77, CQE(e[:]).UserIndex())
	require.EqualValues(t, 0x123456, CQE(e[:]).QPN())

	c.Format = CQEInline64
	PutCQE(e[:], c)
	binary.NativeEndian.PutUint32(e[CQELastWord:], LastWord(c))
	require.Equal(t, CQEInline64, CQE(e[:]).Format())
	require.EqualValues(t, 0xabcdef, CQE(e[:]).RemoteQPN())
	require.EqualValues(t, len(data), CQE(e[:]).ByteCount())
}
