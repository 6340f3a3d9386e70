package rxe_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

const half = regionSize / 2

func TestKernelNIC(t *testing.T) {
	h := open(t)
	l := h.nic.Limits()
	require.GreaterOrEqual(t, l.Segments, 4)
	require.GreaterOrEqual(t, l.Message, uint32(1<<20))
	require.True(t, l.Atomics)
	require.Positive(t, min(l.Completions, l.Work, l.Reads, l.PeerReads, l.ReadSegments, l.MemoryRegions, l.QueuePairs, l.CompletionQueues))
	port, err := h.nic.Port()
	require.NoError(t, err)
	require.Equal(t, verbs.PortActive, port.State)
	gids, err := h.nic.GIDs()
	require.NoError(t, err)
	require.NotEmpty(t, gids)
	require.ErrorIs(t, h.nic.Close(), rxe.ErrBusy)
	require.NoError(t, h.nic.Err())
}

func TestKernelOperations(t *testing.T) {
	l := newLine(t, work.RemoteReadWrite)
	const large = 100_000
	require.NoError(t, l.b.Receive(100, l.mr.Local(half, large)))
	want := l.fill(0, large, 1)
	l.post(work.Entry{Op: work.Send, ID: 1, Local: l.mr.Local(0, large), Signaled: true})
	require.Equal(t, success(1, l.a, work.Send, 0), one(t, l.doneA))
	require.Equal(t, success(100, l.b, work.Receive, large), one(t, l.doneB))
	require.Equal(t, want, l.mr.Bytes()[half:][:large])

	require.NoError(t, l.b.Receive(101, l.mr.Local(half, 10), l.mr.Local(half+50, 0), l.mr.Local(half+100, 10)))
	l.post(work.Entry{Op: work.SendImm, ID: 2, Inline: []byte("fifteen bytes .."[:15]), Imm: 0xfeedface, Solicited: true, Signaled: true})
	require.Equal(t, success(2, l.a, work.SendImm, 0), one(t, l.doneA))
	arrived := success(101, l.b, work.Receive, 15)
	arrived.Imm, arrived.HasImm = 0xfeedface, true
	require.Equal(t, arrived, one(t, l.doneB))
	require.Equal(t, "fifteen by", string(l.mr.Bytes()[half:][:10]))
	require.Equal(t, "tes .", string(l.mr.Bytes()[half+100:][:5]))

	want = l.fill(3, 70_001, 2)
	l.post(work.Entry{Op: work.Write, ID: 3, Remote: l.target(half + 9), Signaled: true,
		Local: l.mr.Local(3, 1), Locals: []work.Segment{l.mr.Local(4, 30_000), l.mr.Local(0, 0), l.mr.Local(30_004, 40_000)}})
	require.Equal(t, success(3, l.a, work.Write, 0), one(t, l.doneA))
	require.Equal(t, want, l.mr.Bytes()[half+9:][:70_001])

	require.NoError(t, l.b.Receive(102))
	l.post(work.Entry{Op: work.WriteImm, ID: 4, Inline: []byte("inline"), Imm: 7, Remote: l.target(half), Signaled: true})
	require.Equal(t, success(4, l.a, work.WriteImm, 0), one(t, l.doneA))
	arrived = success(102, l.b, work.ReceiveWrite, 6)
	arrived.Imm, arrived.HasImm = 7, true
	require.Equal(t, arrived, one(t, l.doneB))
	require.Equal(t, "inline", string(l.mr.Bytes()[half:][:6]))

	want = l.fill(half, 9000, 3)
	l.post(work.Entry{Op: work.Read, ID: 5, Remote: l.target(half), Signaled: true,
		Local: l.mr.Local(0, 4000), Locals: []work.Segment{l.mr.Local(4000, 5000)}})
	require.Equal(t, success(5, l.a, work.Read, 9000), one(t, l.doneA))
	require.Equal(t, want, l.mr.Bytes()[:9000])

	require.NoError(t, l.b.Receive(103))
	l.post(work.Entry{Op: work.Send, ID: 9, Signaled: true})
	require.Equal(t, success(9, l.a, work.Send, 0), one(t, l.doneA))
	require.Equal(t, success(103, l.b, work.Receive, 0), one(t, l.doneB))

	quiet(t, l.doneA)
	quiet(t, l.doneB)
	require.Equal(t, usual.Sends, l.a.Room(work.Sends), "every slot is free again")
	require.Equal(t, usual.Receives, l.b.Room(work.Receives))
}

func TestKernelAtomics(t *testing.T) {
	l := newLine(t, work.RemoteReadWrite)
	word, old := l.mr.Bytes()[half:][:8], l.mr.Bytes()[:8]
	binary.NativeEndian.PutUint64(word, 40)
	for _, test := range []struct {
		entry       work.Entry
		before, now uint64
	}{
		{work.Entry{Op: work.FetchAdd, Add: 2}, 40, 42},
		{work.Entry{Op: work.CompareSwap, Compare: 41, Swap: 1}, 42, 42},
		{work.Entry{Op: work.CompareSwap, Compare: 42, Swap: 1 << 60, Fence: true}, 42, 1 << 60},
	} {
		e := test.entry
		e.ID, e.Local, e.Remote, e.Signaled = 6, l.mr.Local(0, 8), l.target(half), true
		l.post(e)
		require.Equal(t, success(6, l.a, e.Op, 8), one(t, l.doneA))
		require.Equal(t, test.before, binary.NativeEndian.Uint64(old))
		require.Equal(t, test.now, binary.NativeEndian.Uint64(word))
	}
}

// A signaled entry's completion frees those before it, and the ring goes round.
func TestKernelUnsignaled(t *testing.T) {
	l := newLine(t, work.RemoteWrite)
	for round := range 5 {
		for i := range usual.Sends {
			require.NoError(t, l.a.Post(work.Entry{Op: work.Write, ID: uint64(round*100 + i), Inline: []byte{byte(round), byte(i)},
				Remote: l.target(half + 2*i), Signaled: i == usual.Sends-1}))
		}
		require.ErrorIs(t, l.a.Post(work.Entry{Op: work.Write}), work.ErrRoom)
		require.NoError(t, l.a.Ring())
		require.Equal(t, success(uint64(round*100+usual.Sends-1), l.a, work.Write, 0), one(t, l.doneA))
		require.Equal(t, usual.Sends, l.a.Room(work.Sends))
		for i := range usual.Sends {
			require.Equal(t, []byte{byte(round), byte(i)}, l.mr.Bytes()[half+2*i:][:2])
		}
	}
}

// A queue pair can be its own peer.
func TestKernelToItself(t *testing.T) {
	h := open(t)
	p := pairOn(t, h.done, usual)
	require.ErrorIs(t, p.Fail(), work.ErrNotConnected)
	require.NoError(t, p.Connect(work.RemoteWrite, p.Endpoint()), "and no trace of that is left")
	require.ErrorIs(t, p.Connect(work.RemoteWrite, p.Endpoint()), work.ErrConnected)
	want := h.fill(0, 5000, 1)
	require.NoError(t, p.Post(work.Entry{Op: work.Write, ID: 1, Local: h.mr.Local(0, 5000), Remote: h.target(half), Signaled: true}))
	require.NoError(t, p.Ring())
	require.Equal(t, success(1, p, work.Write, 0), one(t, h.done))
	require.Equal(t, want, h.mr.Bytes()[half:][:5000])
	state, err := p.State()
	require.NoError(t, err)
	require.Equal(t, verbs.StateRTS, state)
}
