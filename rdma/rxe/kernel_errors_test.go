package rxe_test

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// What one side does wrong, and how both sides' entries end. Behind the entry that
// fails there is one that was not signaled, which is flushed all the same. Soft-RoCE
// has statuses of its own for some: hardware says LocalProtection for a local key, and
// RemoteInvalid and LocalLength for a receive that is too short.
func TestKernelFailures(t *testing.T) {
	for _, test := range []struct {
		name           string
		granted        work.Access
		entry          func(l *line) work.Entry
		receive        int // bytes of the peer's receive
		want, receiver verbs.Status
	}{
		{"remote key", work.RemoteWrite, func(l *line) work.Entry {
			to := l.target(half)
			to.RKey ^= 0x5500
			return work.Entry{Op: work.Write, Local: l.mr.Local(0, 8), Remote: to}
		}, 8, verbs.RemoteAccess, verbs.Flushed},
		{"beyond the region", work.RemoteWrite, func(l *line) work.Entry {
			return work.Entry{Op: work.Write, Local: l.mr.Local(0, 8), Remote: l.target(regionSize - 7)}
		}, 8, verbs.RemoteAccess, verbs.Flushed},
		{"read not granted", work.RemoteWrite, func(l *line) work.Entry {
			return work.Entry{Op: work.Read, Local: l.mr.Local(0, 8), Remote: l.target(half)}
		}, 8, verbs.RemoteInvalid, verbs.Flushed},
		{"write not granted", work.Local, func(l *line) work.Entry {
			return work.Entry{Op: work.Write, Local: l.mr.Local(0, 8), Remote: l.target(half)}
		}, 8, verbs.RemoteInvalid, verbs.Flushed},
		{"local key", work.RemoteWrite, func(l *line) work.Entry {
			s := l.mr.Local(0, 8)
			s.LKey ^= 0x5500
			return work.Entry{Op: work.Write, Local: s, Remote: l.target(half)}
		}, 8, verbs.LocalQPOperation, 0},
		{"too long for its receive", work.Local, func(l *line) work.Entry {
			return work.Entry{Op: work.Send, Local: l.mr.Local(0, 9)}
		}, 8, verbs.RemoteOperation, verbs.LocalQPOperation},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLine(t, test.granted)
			require.NoError(t, l.b.Receive(90, l.mr.Local(half+4096, test.receive)))
			e := test.entry(l)
			e.ID, e.Signaled = 1, true
			l.post(e, work.Entry{Op: work.Send, ID: 2})
			got := poll(t, l.doneA, 2)
			if test.want == verbs.LocalQPOperation && got[0].Status == verbs.Flushed {
				got[0].Status = test.want // Linux 7.3 may flush an entry before it says what is wrong with it
			}
			require.Equal(t, failure(1, l.a, e.Op, test.want), got[0])
			require.Equal(t, failure(2, l.a, work.Send, verbs.Flushed), got[1])
			if test.receiver != 0 {
				require.Equal(t, failure(90, l.b, work.Receive, test.receiver), one(t, l.doneB))
			}
			state, err := l.a.State()
			require.NoError(t, err)
			require.Equal(t, verbs.StateErr, state)

			// Whatever is posted now is flushed, without anyone's help.
			require.NoError(t, l.a.Receive(91))
			require.Equal(t, failure(91, l.a, work.Receive, verbs.Flushed), one(t, l.doneA))
			l.post(work.Entry{Op: work.Send, ID: 92})
			require.Equal(t, failure(92, l.a, work.Send, verbs.Flushed), one(t, l.doneA))
			require.Equal(t, usual.Sends, l.a.Room(work.Sends))
		})
	}
}

// Fail flushes what was posted, and what is posted after it.
func TestKernelDrain(t *testing.T) {
	l := newLine(t, work.Local)
	require.NoError(t, l.b.Receive(1, l.mr.Local(0, 8)))
	require.NoError(t, l.b.Receive(2))
	require.NoError(t, l.b.Fail())
	require.NoError(t, l.b.Receive(3))
	for id := range uint64(3) {
		require.Equal(t, failure(id+1, l.b, work.Receive, verbs.Flushed), one(t, l.doneB))
	}
	require.NoError(t, l.b.Post(work.Entry{Op: work.Send, ID: 4}))
	require.NoError(t, l.b.Ring())
	require.Equal(t, failure(4, l.b, work.Send, verbs.Flushed), one(t, l.doneB))
}

// A peer that is not there is given up on, though Soft-RoCE could try for ever.
func TestKernelSilentPeer(t *testing.T) {
	l := newLine(t, work.Local)
	require.NoError(t, l.b.Destroy())
	l.post(work.Entry{Op: work.Send, ID: 1, Signaled: true})
	require.Equal(t, failure(1, l.a, work.Send, verbs.RetryExceeded), one(t, l.doneA))
}

// A message waits for a receive.
func TestKernelReceiverNotReady(t *testing.T) {
	l := newLine(t, work.Local)
	l.post(work.Entry{Op: work.SendImm, ID: 1, Imm: 5, Signaled: true})
	require.NoError(t, l.b.Receive(2))
	require.Equal(t, success(1, l.a, work.SendImm, 0), one(t, l.doneA))
	want := success(2, l.b, work.Receive, 0)
	want.Imm, want.HasImm = 5, true
	require.Equal(t, want, one(t, l.doneB))
}

// Completions of a queue pair that were not polled go with it; others' stay, in
// order, however they lay.
func TestKernelDestroyPurges(t *testing.T) {
	h := open(t)
	var pairs [2]*rxe.Pair
	for i := range pairs {
		pairs[i] = pairOn(t, h.done, usual)
		require.NoError(t, pairs[i].Connect(work.RemoteWrite, pairs[i].Endpoint()))
	}
	for round := range 3 {
		for i := range usual.Sends {
			for _, p := range pairs {
				e := work.Entry{Op: work.Write, ID: uint64(round*100 + i), Inline: []byte{1}, Remote: h.target(half), Signaled: true}
				require.NoError(t, p.Post(e))
				require.NoError(t, p.Ring())
			}
		}
		require.NoError(t, pairs[0].Destroy())
		for i := range usual.Sends {
			require.Equal(t, success(uint64(round*100+i), pairs[1], work.Write, 0), one(t, h.done))
		}
		quiet(t, h.done)
		pairs[0] = pairOn(t, h.done, usual)
		require.NoError(t, pairs[0].Connect(work.RemoteWrite, pairs[0].Endpoint()))
	}
	require.Equal(t, h.done.Capacity()-2*(usual.Sends+usual.Receives), h.done.Room())
	require.ErrorIs(t, h.done.Close(), work.ErrQueueBusy)
}

func TestKernelRefuses(t *testing.T) {
	h := open(t)
	limits := h.nic.Limits()
	for name, c := range map[string]rxe.PairConfig{
		"sends":                {Sends: limits.Work + 1},
		"receives":             {Sends: 1, Receives: limits.Work + 1},
		"segments":             {Sends: 1, SendSegments: limits.Segments + 1},
		"segments of receives": {Sends: 1, ReceiveSegments: limits.Segments + 1},
		"inline":               {Sends: 1, Inline: 1 << 20},
		"negative":             {Sends: -1},
		"room":                 {Sends: h.done.Capacity() + 1},
		"room in all":          {Sends: h.done.Capacity(), Receives: 1},
	} {
		_, err := rxe.NewPair(h.done, c)
		require.Error(t, err, name)
	}
	for _, n := range []int{0, limits.Completions + 1} {
		_, err := rxe.NewQueue(h.nic, n)
		require.Error(t, err)
	}
	require.Equal(t, h.done.Capacity(), h.done.Room(), "nothing was left attached")

	_, err := rxe.Open("rxe_of_no_name")
	require.ErrorIs(t, err, rxe.ErrNoDevice)
	_, err = rxe.Register(h.nic, work.Local, nil)
	require.ErrorIs(t, err, rxe.ErrEmpty)
	_, err = rxe.Alloc(h.nic, work.Access(9), 4096)
	require.ErrorIs(t, err, work.ErrAccess)

	p := pairOn(t, h.done, rxe.PairConfig{Sends: 1})
	require.ErrorIs(t, p.Post(work.Entry{Op: work.Send}), work.ErrNotConnected)
	require.ErrorIs(t, p.Receive(1), work.ErrNotConnected)
	require.ErrorIs(t, p.Fail(), work.ErrNotConnected)
	require.NoError(t, p.Ring())
	peer := p.Endpoint()
	peer.GID = verbs.GID{}
	require.ErrorIs(t, p.Connect(work.Local, peer), verbs.ErrInvalidEndpoint)
	require.NoError(t, p.Connect(work.Local, p.Endpoint()), "it can be connected after all")
	require.ErrorIs(t, p.Receive(1), work.ErrNoReceives)
	require.NoError(t, p.Destroy())
	require.NoError(t, p.Destroy())
	require.ErrorIs(t, p.Post(work.Entry{Op: work.Send}), work.ErrDestroyed)
	_, err = p.State()
	require.ErrorIs(t, err, work.ErrDestroyed)
}

// flaky refuses what it is told to.
type flaky struct {
	verbs.File
	command uint32 // legacy command to refuse
	refuse  bool
	maps    int // mappings that succeed; negative is all
}

func (f *flaky) Ioctl(cmd []byte) error {
	if f.refuse && commandOf(cmd) == f.command {
		return syscall.EPERM
	}
	return f.File.Ioctl(cmd)
}

// commandOf is the number of a legacy command.
func commandOf(cmd []byte) uint32 {
	for a := cmd[uapi.HeaderSize:]; len(a) > 0; a = a[uapi.AttrSize:] {
		if binary.NativeEndian.Uint16(a) == uapi.AttrWriteCmd {
			return binary.NativeEndian.Uint32(a[8:])
		}
	}
	return 0
}

func (f *flaky) Map(offset int64, length int) (*verbs.Page, error) {
	if f.maps == 0 {
		return nil, syscall.ENOMEM
	}
	f.maps--
	return f.File.Map(offset, length)
}

func openFlaky(t *testing.T) (*rxe.NIC, *flaky) {
	t.Helper()
	name := device(t)
	before := resources(t)
	t.Cleanup(func() { require.Equal(t, before, resources(t)) })
	devices, err := verbs.Devices("")
	require.NoError(t, err)
	i := slices.IndexFunc(devices, func(d verbs.Device) bool { return d.Name == name })
	file, err := devices[i].Open()
	require.NoError(t, err)
	f := &flaky{File: file, maps: -1}
	n, err := rxe.OpenFile(f, rxe.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n, f
}

// What fails half way leaves nothing.
func TestKernelHalfWay(t *testing.T) {
	n, f := openFlaky(t)
	f.maps = 0
	_, err := rxe.NewQueue(n, 64)
	require.ErrorIs(t, err, syscall.ENOMEM)
	f.maps = -1
	q := queue(t, n, 64)
	for maps := range 2 {
		f.maps = maps
		_, err = rxe.NewPair(q, usual)
		require.ErrorIs(t, err, syscall.ENOMEM)
	}
	f.maps = -1
	require.Equal(t, q.Capacity(), q.Room())

	index := 200
	_, err = rxe.Config{GIDIndex: &index}.Open(device(t))
	require.ErrorIs(t, err, rxe.ErrNoGID)
}

// What the kernel refuses to destroy counts as destroyed, and goes with the NIC.
func TestKernelRefusedDestruction(t *testing.T) {
	n, f := openFlaky(t)
	q, other := queue(t, n, 100), queue(t, n, 10)
	stays, goes := pairOn(t, q, usual), pairOn(t, q, usual)
	for _, p := range []*rxe.Pair{stays, goes} {
		require.NoError(t, p.Connect(work.Local, p.Endpoint()))
	}
	require.NoError(t, stays.Receive(1))
	f.command, f.refuse = uapi.CmdDestroyQP, true
	require.ErrorIs(t, stays.Destroy(), syscall.EPERM)
	require.NoError(t, stays.Destroy(), "it counts as destroyed")
	f.refuse = false
	require.NoError(t, goes.Receive(2))
	require.NoError(t, goes.Fail())
	require.Equal(t, failure(2, goes, work.Receive, verbs.Flushed), one(t, q))
	require.NoError(t, goes.Destroy())
	require.Equal(t, q.Capacity()-usual.Sends-usual.Receives, q.Room(), "its rooms stay counted")

	f.command, f.refuse = uapi.CmdDestroyCQ, true
	require.ErrorIs(t, other.Close(), syscall.EPERM)
	require.NoError(t, other.Close(), "it counts as closed")
	require.ErrorIs(t, q.Close(), syscall.EPERM)
	f.refuse = false
}
