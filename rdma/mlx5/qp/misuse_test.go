package qp_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// What cannot be posted is refused before anything reaches the NIC, and takes no
// room.
func TestPostRefuses(t *testing.T) {
	l := newSelf(t, softnic.Config{})
	mr := l.a.MR
	seg := mr.Local(0, 16)
	many := make([]region.Segment, l.pa.Limits().SendSegments+1)
	for i := range many {
		many[i] = seg
	}
	long := region.Segment{Length: 1 << 30}
	closed, err := region.Alloc(l.a.NIC, region.Local, 64)
	require.NoError(t, err)
	require.NoError(t, closed.Close())

	l.a.File.Record()
	for _, test := range []struct {
		name  string
		entry qp.Entry
		want  error
	}{
		{"no operation", qp.Entry{}, qp.ErrOp},
		{"a receive's operation", qp.Entry{Op: cq.Receive}, qp.ErrOp},
		{"solicited write", qp.Entry{Op: qp.Write, Solicited: true}, qp.ErrEntry},
		{"solicited read", qp.Entry{Op: qp.Read, Solicited: true}, qp.ErrEntry},
		{"inline read", qp.Entry{Op: qp.Read, Inline: []byte("x")}, qp.ErrEntry},
		{"inline atomic", qp.Entry{Op: qp.FetchAdd, Inline: make([]byte, 8)}, qp.ErrEntry},
		{"inline beside segments", qp.Entry{Op: qp.Send, Inline: []byte("x"), Local: seg}, qp.ErrEntry},
		{"too much inline", qp.Entry{Op: qp.Send, Inline: make([]byte, l.pa.Limits().Inline+1)}, qp.ErrInline},
		{"too many segments", qp.Entry{Op: qp.Send, Locals: many}, qp.ErrSegments},
		{"out of the region", qp.Entry{Op: qp.Send, Local: mr.Local(mlx5test.Bytes-1, 2)}, region.ErrRange},
		{"out of the region, later", qp.Entry{Op: qp.Send, Local: seg, Locals: []region.Segment{mr.Local(-1, 2)}}, region.ErrRange},
		{"closed region", qp.Entry{Op: qp.Send, Local: closed.Local(0, 1)}, region.ErrRange},
		{"long segment", qp.Entry{Op: qp.Send, Local: region.Segment{Length: 1 << 31}}, qp.ErrTooLong},
		{"long message", qp.Entry{Op: qp.Write, Local: long, Locals: []region.Segment{seg}}, qp.ErrTooLong},
		{"atomic of 4 bytes", qp.Entry{Op: qp.FetchAdd, Local: mr.Local(0, 4), Remote: l.b.Target(0)}, qp.ErrAtomic},
		{"atomic of two segments", qp.Entry{Op: qp.FetchAdd, Local: mr.Local(0, 4), Locals: []region.Segment{mr.Local(4, 4)}, Remote: l.b.Target(0)}, qp.ErrAtomic},
		{"atomic not aligned", qp.Entry{Op: qp.CompareSwap, Local: mr.Local(0, 8), Remote: l.b.Target(4)}, qp.ErrAtomic},
	} {
		require.ErrorIs(t, l.pa.Post(test.entry), test.want, test.name)
	}
	require.ErrorIs(t, l.pa.Receive(1, many...), qp.ErrSegments)
	require.ErrorIs(t, l.pa.Receive(1, mr.Local(0, mlx5test.Bytes+1)), region.ErrRange)
	require.ErrorIs(t, l.pa.Receive(1, long, seg), qp.ErrTooLong)

	l.pa.Ring()
	require.Empty(t, l.a.File.Bells(), "nothing was posted, nothing is rung")
	require.Equal(t, 16, l.pa.Room(qp.Sends))
	require.Equal(t, 16, l.pa.Room(qp.Receives))
	l.a.Quiet()
}

func TestNotConnected(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(lineConfig)
	require.ErrorIs(t, p.Post(qp.Entry{Op: qp.Send}), qp.ErrNotConnected)
	require.ErrorIs(t, p.Receive(1), qp.ErrNotConnected)
	require.ErrorIs(t, p.Fail(), qp.ErrNotConnected)
	p.Ring()
	require.Equal(t, 16, p.Room(qp.Sends))
	state, err := p.State()
	require.NoError(t, err)
	require.Equal(t, verbs.StateReset, state)
}

func TestDestroyed(t *testing.T) {
	l := newSelf(t, softnic.Config{})
	require.NoError(t, l.pa.Destroy())
	require.NoError(t, l.pa.Destroy(), "again")
	require.ErrorIs(t, l.pa.Post(qp.Entry{Op: qp.Send}), qp.ErrDestroyed)
	require.ErrorIs(t, l.pa.Receive(1), qp.ErrDestroyed)
	require.ErrorIs(t, l.pa.Fail(), qp.ErrDestroyed)
	require.ErrorIs(t, l.pa.Connect(region.Local, l.pa.Endpoint()), qp.ErrDestroyed)
	_, err := l.pa.State()
	require.ErrorIs(t, err, qp.ErrDestroyed)
	l.pa.Ring()
	require.Equal(t, mlx5test.Completions, l.a.Done.Room())
}

func TestNoReceiveRing(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 1})
	require.NoError(t, p.Connect(region.Local, p.Endpoint()))
	require.ErrorIs(t, p.Receive(1), qp.ErrNoReceives)
	require.Zero(t, p.Room(qp.Receives))
	require.Zero(t, p.Room(qp.Ring(7)))
	require.Equal(t, mlx5test.Completions-1, h.Done.Room())
}

func TestConnectRefuses(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(lineConfig)
	good := p.Endpoint()
	require.NoError(t, good.Validate())
	bad := map[string]func(e *verbs.Endpoint){
		"queue pair number": func(e *verbs.Endpoint) { e.QPN = 0 },
		"sequence number":   func(e *verbs.Endpoint) { e.PSN = 1 << 24 },
		"MTU":               func(e *verbs.Endpoint) { e.MTU = 0 },
	}
	if good.LinkLayer == verbs.LinkEthernet {
		bad["no GID"] = func(e *verbs.Endpoint) { e.GID = verbs.GID{} }
		bad["IPv6 from IPv4"] = func(e *verbs.Endpoint) { e.GID = verbs.GID{0: 0xfd} }
		bad["link layer"] = func(e *verbs.Endpoint) { e.LinkLayer, e.LID = verbs.LinkInfiniBand, 5 }
	} else {
		bad["no LID"] = func(e *verbs.Endpoint) { e.LID = 0 }
		bad["link layer"] = func(e *verbs.Endpoint) { e.LinkLayer = verbs.LinkEthernet }
	}
	for name, change := range bad {
		e := good
		change(&e)
		require.ErrorIs(t, p.Connect(region.Local, e), verbs.ErrInvalidEndpoint, name)
	}
	require.ErrorIs(t, p.Connect(region.Access(9), good), region.ErrAccess)
	require.NoError(t, p.Connect(region.Local, good), "it can still be connected")
	require.ErrorIs(t, p.Connect(region.Local, good), qp.ErrConnected)
}

// The kernel may refuse each step of connecting, and each can be tried again.
func TestConnectAfterARefusal(t *testing.T) {
	for after := range 3 {
		h := mlx5test.NewHost(t, softnic.Config{})
		p := h.Pair(lineConfig)
		modify := mlx5test.Command{Write: uapi.CmdModifyQP}
		h.File.Refuse(modify, syscall.ENETUNREACH, after)
		require.ErrorIs(t, p.Connect(region.Local, p.Endpoint()), syscall.ENETUNREACH)
		require.ErrorIs(t, p.Post(qp.Entry{Op: qp.Send}), qp.ErrNotConnected)
		h.File.Refuse(modify, 0, 0)
		if after > 0 { // the way back was refused too
			continue
		}
		require.NoError(t, p.Connect(region.Local, p.Endpoint()))
		require.NoError(t, p.Receive(2))
		require.NoError(t, p.Post(qp.Entry{Op: qp.Send, ID: 1, Signaled: true}))
		p.Ring()
		h.Poll(2)
	}
}

func TestSizes(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{Limits: softnic.Limits{QPEntries: 1 << 10}})
	for _, test := range []struct {
		name   string
		config qp.Config
		want   qp.Limits
	}{
		{"least", qp.Config{Sends: 1, Receives: 1},
			qp.Limits{Sends: 1, Receives: 4, SendSegments: 2, ReadSegments: 2, ReceiveSegments: 1, Inline: 28}},
		{"rounded up", qp.Config{Sends: 5, Receives: 33, ReceiveSegments: 3},
			qp.Limits{Sends: 8, Receives: 64, SendSegments: 2, ReadSegments: 2, ReceiveSegments: 4, Inline: 28}},
		{"inline", qp.Config{Sends: 2, Inline: 29}, qp.Limits{Sends: 2, SendSegments: 6, ReadSegments: 6, Inline: 92}},
		{"segments", qp.Config{Sends: 2, SendSegments: 3}, qp.Limits{Sends: 2, SendSegments: 6, ReadSegments: 6, Inline: 92}},
	} {
		p := h.Pair(test.config)
		test.want.Message, test.want.Atomics = 1<<30, true
		require.Equal(t, test.want, p.Limits(), test.name)
		require.Equal(t, test.want.Sends, p.Room(qp.Sends))
		require.Equal(t, test.want.Receives, p.Room(qp.Receives))
	}
	for _, test := range []struct {
		name   string
		config qp.Config
		want   string
	}{
		{"no sends", qp.Config{}, "out of range"},
		{"negative receives", qp.Config{Sends: 1, Receives: -1}, "out of range"},
		{"negative segments", qp.Config{Sends: 1, SendSegments: -1}, "out of range"},
		{"too many sends", qp.Config{Sends: 1<<15 + 1}, "more than 32768"},
		{"more sends than the NIC", qp.Config{Sends: 513 + 512}, "more than 1024"},
		{"more receives than the NIC", qp.Config{Sends: 1, Receives: 1025}, "more than 1024"},
		{"too many receives", qp.Config{Sends: 1, Receives: 1<<15 + 1}, "more than 32768"},
		{"large entries", qp.Config{Sends: 512, SendSegments: 8}, "basic blocks of the send ring is more than 1024"},
		{"too many segments", qp.Config{Sends: 1, SendSegments: 31}, "more than 30"},
		{"too many receive segments", qp.Config{Sends: 1, Receives: 1, ReceiveSegments: 64}, "segments of a receive"},
		{"inline too long", qp.Config{Sends: 1, Inline: 1000}, "bytes of an entry in the ring"},
		{"inline far too long", qp.Config{Sends: 1, Inline: 1 << 40}, "inline bytes of an entry"},
	} {
		_, err := qp.New(h.Done, test.config)
		require.ErrorContains(t, err, test.want, test.name)
	}
	other := mlx5test.NewHost(t, softnic.Config{})
	_, err := qp.New(h.Done, qp.Config{Sends: 1, Receives: 1, ReceiveQueue: other.Done})
	require.ErrorContains(t, err, "two NICs")
}

// A completion queue takes no queue pair that could make it overflow.
func TestCompletionQueueCountsRooms(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	small, err := cq.New(h.NIC, 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, small.Close()) }()
	require.Equal(t, 32, small.Capacity())
	first, err := qp.New(small, qp.Config{Sends: 9, Receives: 5}) // 16 and 8
	require.NoError(t, err)
	require.Equal(t, 8, small.Room())
	_, err = qp.New(small, qp.Config{Sends: 8, Receives: 1})
	require.ErrorIs(t, err, cq.ErrFull)
	_, err = qp.New(small, qp.Config{Sends: 9, Receives: 4, ReceiveQueue: h.Done})
	require.ErrorIs(t, err, cq.ErrFull)
	require.Equal(t, 8, small.Room())
	require.Equal(t, mlx5test.Completions, h.Done.Room(), "a refusal takes no room anywhere")
	second, err := qp.New(small, qp.Config{Sends: 8, Receives: 64, ReceiveQueue: h.Done})
	require.NoError(t, err)
	require.Zero(t, small.Room())
	require.ErrorIs(t, small.Close(), cq.ErrBusy)
	require.NoError(t, first.Destroy())
	require.Equal(t, 24, small.Room())
	require.NoError(t, second.Destroy())
	require.Equal(t, 32, small.Room())
}

func TestKernelRefusesAQueuePair(t *testing.T) {
	eachPages(t, func(t *testing.T, c softnic.Config) {
		h := mlx5test.NewHost(t, c)
		create := mlx5test.Command{Write: uapi.CmdCreateQP}
		h.File.Refuse(create, syscall.ENOMEM, 0)
		_, err := qp.New(h.Done, lineConfig)
		require.ErrorIs(t, err, syscall.ENOMEM)
		require.ErrorIs(t, err, verbs.ErrLockedMemory)
		require.Equal(t, mlx5test.Completions, h.Done.Room())
		h.File.Refuse(create, 0, 0)
		h.Pair(lineConfig)
	})
}

// A queue pair that could not be made takes nothing of those that were: the first
// of a NIC has the user index 0.
func TestRefusalLeavesOthersAlone(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 4})
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	require.NoError(t, p.Post(qp.Entry{Op: qp.Write, ID: 1, Remote: h.Target(0), Signaled: true}))
	p.Ring()
	_, err := qp.New(h.Done, qp.Config{Sends: mlx5test.Completions})
	require.ErrorIs(t, err, cq.ErrFull)
	h.File.Refuse(mlx5test.Command{Write: uapi.CmdCreateQP}, syscall.ENOMEM, 0)
	_, err = qp.New(h.Done, qp.Config{Sends: 4, Receives: 4})
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, success(1, p, qp.Write, 0), h.Poll(1)[0])
	require.Equal(t, 4, p.Room(qp.Sends))
}

func eachPages(t *testing.T, f func(t *testing.T, c softnic.Config)) {
	t.Run("dynamic", func(t *testing.T) { f(t, softnic.Config{}) })
	t.Run("static", func(t *testing.T) { f(t, softnic.Config{StaticUAR: true, OldCQE: true}) })
}

func TestSequenceNumbersAreRandom(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	seen := map[uint32]bool{}
	var or, and uint32 = 0, 1<<24 - 1
	for range 40 {
		p := h.Pair(qp.Config{Sends: 1})
		require.Equal(t, p.Number(), p.Endpoint().QPN)
		psn := p.Endpoint().PSN
		require.LessOrEqual(t, psn, uint32(verbs.MaxPSN))
		seen[psn] = true
		or, and = or|psn, and&psn
	}
	require.Greater(t, len(seen), 38)
	require.EqualValues(t, 1<<24-1, or, "every bit is set at times")
	require.Zero(t, and, "and clear at times")
}

// A NIC without atomics refuses them, and does not ask the kernel to grant them,
// which would refuse the region and the connection.
func TestNoAtomics(t *testing.T) {
	_, file := mlx5test.Open(t, softnic.Config{})
	file.Reply(mlx5test.Command{Write: uapi.CmdQueryDevice}, func(response []byte) {
		var r uapi.QueryDeviceResp
		copy(uapi.Bytes(&r), response)
		r.AtomicCap = 0
		copy(response, uapi.Bytes(&r))
	})
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	require.False(t, nic.Limits().Atomics)
	mr, err := region.Alloc(nic, region.RemoteReadWrite, 4096)
	require.NoError(t, err)
	done, err := cq.New(nic, 16)
	require.NoError(t, err)
	p, err := qp.New(done, qp.Config{Sends: 4})
	require.NoError(t, err)
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))

	var registered uapi.RegMR
	copy(uapi.Bytes(&registered), file.Issued(mlx5test.Command{Write: uapi.CmdRegMR})[0].Core)
	require.Equal(t, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead, verbs.Access(registered.AccessFlags))
	var connected uapi.ModifyQP
	copy(uapi.Bytes(&connected), file.Issued(mlx5test.Command{Write: uapi.CmdModifyQP})[0].Core)
	require.Equal(t, verbs.AccessRemoteWrite|verbs.AccessRemoteRead, verbs.Access(connected.QPAccessFlags))

	target, err := mr.Remote(0)
	require.NoError(t, err)
	for _, op := range []cq.Op{qp.CompareSwap, qp.FetchAdd} {
		require.Equal(t, qp.ErrNoAtomics, p.Post(qp.Entry{Op: op, Local: mr.Local(0, 8), Remote: target}))
	}
	require.NoError(t, p.Post(qp.Entry{Op: qp.Read, Local: mr.Local(0, 8), Remote: target}))
	require.NoError(t, p.Destroy())
	require.NoError(t, done.Close())
	require.NoError(t, mr.Close())
	require.NoError(t, nic.Close())
}
