package qp_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestEveryOperationBetweenTwo(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) { everyOperation(newLine(t, c)) })
}

func TestEveryOperationToItself(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) { everyOperation(newSelf(t, c)) })
}

// both polls the completions of a's entry and of b's receive, in this order also
// when they come to one queue.
func (l *line) both() (sent, received cq.Completion) {
	l.t.Helper()
	if l.a != l.b {
		return l.a.Poll(1)[0], l.b.Poll(1)[0]
	}
	all := l.a.Poll(2)
	if all[0].Ring == cq.Receives {
		return all[1], all[0]
	}
	return all[0], all[1]
}

func everyOperation(l *line) {
	t := l.t
	// a's memory is the first half of its region, b's the second half: on a line
	// to itself they are one region.
	const half, large = mlx5test.Bytes / 2, 100_000

	require.NoError(t, l.pb.Receive(100, l.b.MR.Local(half, large)))
	want := l.a.Fill(0, large, 1)
	l.post(qp.Entry{Op: qp.Send, ID: 1, Local: l.a.MR.Local(0, large), Signaled: true})
	sent, received := l.both()
	require.Equal(t, success(1, l.pa, cq.Send, 0), sent)
	require.Equal(t, success(100, l.pb, cq.Receive, large), received)
	require.Equal(t, want, l.b.MR.Bytes()[half:][:large])

	require.NoError(t, l.pb.Receive(101, l.b.MR.Local(half, 10), l.b.MR.Local(half+50, 0), l.b.MR.Local(half+100, 10)))
	l.post(qp.Entry{Op: qp.SendImm, ID: 2, Inline: []byte("fifteen bytes ..")[:15], Imm: 0xfeedface, Solicited: true, Signaled: true})
	sent, received = l.both()
	require.Equal(t, success(2, l.pa, cq.SendImm, 0), sent)
	arrived := success(101, l.pb, cq.Receive, 15)
	arrived.Imm, arrived.HasImm, arrived.Solicited = 0xfeedface, true, true
	require.Equal(t, arrived, received)
	require.Equal(t, "fifteen by", string(l.b.MR.Bytes()[half:][:10]))
	require.Equal(t, "tes .", string(l.b.MR.Bytes()[half+100:][:5]))

	want = l.a.Fill(3, 70_001, 2)
	l.post(qp.Entry{Op: qp.Write, ID: 3, Remote: l.b.Target(half + 9), Signaled: true,
		Local: l.a.MR.Local(3, 1), Locals: []region.Segment{l.a.MR.Local(4, 30_000), l.a.MR.Local(0, 0), l.a.MR.Local(30_004, 40_000)}})
	require.Equal(t, success(3, l.pa, cq.Write, 0), l.a.Poll(1)[0])
	require.Equal(t, want, l.b.MR.Bytes()[half+9:][:70_001])

	require.NoError(t, l.pb.Receive(102))
	l.post(qp.Entry{Op: qp.WriteImm, ID: 4, Inline: []byte("inline"), Imm: 7, Remote: l.b.Target(half), Signaled: true})
	sent, received = l.both()
	require.Equal(t, success(4, l.pa, cq.WriteImm, 0), sent)
	arrived = success(102, l.pb, cq.ReceiveWrite, 6)
	arrived.Imm, arrived.HasImm = 7, true
	require.Equal(t, arrived, received)
	require.Equal(t, "inline", string(l.b.MR.Bytes()[half:][:6]))

	want = l.b.Fill(half, 9000, 3)
	l.post(qp.Entry{Op: qp.Read, ID: 5, Remote: l.b.Target(half), Signaled: true,
		Local: l.a.MR.Local(0, 4000), Locals: []region.Segment{l.a.MR.Local(4000, 5000)}})
	require.Equal(t, success(5, l.pa, cq.Read, 9000), l.a.Poll(1)[0])
	require.Equal(t, want, l.a.MR.Bytes()[:9000])

	atomics(l, half)

	// Messages of no bytes.
	require.NoError(t, l.pb.Receive(103))
	l.post(qp.Entry{Op: qp.Send, ID: 9, Signaled: true})
	sent, received = l.both()
	require.Equal(t, success(9, l.pa, cq.Send, 0), sent)
	require.Equal(t, success(103, l.pb, cq.Receive, 0), received)

	l.a.Quiet()
	l.b.Quiet()
	for _, room := range []int{l.pa.Room(qp.Sends), l.pb.Room(qp.Receives)} {
		require.Equal(t, 16, room, "every slot is free again")
	}
}

// atomics exchange words in the host's byte order, as the software NIC does.
func atomics(l *line, off int) {
	t := l.t
	word := l.b.MR.Bytes()[off:][:8]
	old := l.a.MR.Bytes()[:8]
	binary.NativeEndian.PutUint64(word, 40)

	l.post(qp.Entry{Op: qp.FetchAdd, ID: 6, Local: l.a.MR.Local(0, 8), Remote: l.b.Target(off), Add: 2, Signaled: true})
	require.Equal(t, success(6, l.pa, cq.FetchAdd, 8), l.a.Poll(1)[0])
	require.EqualValues(t, 40, binary.NativeEndian.Uint64(old))
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(word))

	l.post(qp.Entry{Op: qp.CompareSwap, ID: 7, Local: l.a.MR.Local(0, 8), Remote: l.b.Target(off), Compare: 41, Swap: 1, Signaled: true})
	require.Equal(t, success(7, l.pa, cq.CompareSwap, 8), l.a.Poll(1)[0])
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(old), "not equal: nothing swapped")
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(word))

	l.post(qp.Entry{Op: qp.CompareSwap, ID: 8, Local: l.a.MR.Local(0, 8), Remote: l.b.Target(off), Compare: 42, Swap: 1 << 60, Signaled: true, Fence: true})
	require.Equal(t, success(8, l.pa, cq.CompareSwap, 8), l.a.Poll(1)[0])
	require.EqualValues(t, 1<<60, binary.NativeEndian.Uint64(word))
}
