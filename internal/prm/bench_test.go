package prm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDataPathAllocatesNothing(t *testing.T) {
	wqe := make([]byte, 4*Unit)
	entry := make(CQE, CQESize)
	send := Send{Segments: make([]Segment, 0, 4)}
	list := make([]Segment, 0, 4)
	stride := make([]byte, 2*Unit)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		PutCtrl(wqe, &Ctrl{Opcode: OpWriteImm, QPN: 1, DS: 4, Flags: CQEUpdate})
		PutRemote(wqe[Unit:], 1, 2)
		PutData(wqe[2*Unit:], Segment{Addr: 1, LKey: 2, Length: 3})
		PutData(wqe[3*Unit:], Segment{Addr: 1, LKey: 2, Length: 3})
		if ParseSend(wqe, &send) != nil || len(send.Segments) != 2 {
			panic("entry")
		}
		PutData(stride, Segment{Addr: 1, LKey: 2, Length: 3})
		PutTerminator(stride[Unit:])
		if ParseReceive(stride, &list) != nil {
			panic("receive")
		}
		PutCQE(entry, Completion{Opcode: CQEReceive})
		if completion(entry).ByteCount != 0 {
			panic("completion")
		}
	}))
}

func BenchmarkEncodeWrite(b *testing.B) {
	wqe := make([]byte, Block)
	b.ReportAllocs()
	var index uint16
	for b.Loop() {
		PutCtrl(wqe, &Ctrl{Opcode: OpWrite, Index: index, QPN: 0x123, DS: 3, Flags: CQEUpdate})
		PutRemote(wqe[Unit:], 0x1000, 42)
		PutData(wqe[2*Unit:], Segment{Addr: 0x2000, LKey: 43, Length: 4096})
		index++
	}
}

func BenchmarkParseSend(b *testing.B) {
	wqe := unhex(sends[1].hex)
	var s Send
	b.ReportAllocs()
	for b.Loop() {
		if err := ParseSend(wqe, &s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutCQE(b *testing.B) {
	e := make(CQE, CQESize)
	b.ReportAllocs()
	for b.Loop() {
		PutCQE(e, completions[2].c)
	}
}
