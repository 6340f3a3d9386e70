package qp_test

import (
	"errors"
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

// failed asserts what a failed completion says, and that its error does too.
func failed(t *testing.T, c cq.Completion, id uint64, p *qp.Pair, ring cq.Ring, op cq.Op, s verbs.Status) {
	t.Helper()
	require.Equal(t, s, c.Status, "%+v", c)
	c.Vendor = 0
	require.NotZero(t, c.Syndrome)
	c.Syndrome = 0
	require.Equal(t, cq.Completion{ID: id, QPN: p.Number(), Ring: ring, Op: op, Status: s}, c)
	err := c.Err()
	require.ErrorIs(t, err, &verbs.StatusError{Status: s})
	var status *verbs.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, p.Number(), status.QPN)
	require.Equal(t, op.String(), status.Opcode)
}

func state(t *testing.T, p *qp.Pair) verbs.QPState {
	t.Helper()
	s, err := p.State()
	require.NoError(t, err)
	return s
}

func TestFailures(t *testing.T) {
	bad := region.Segment{Addr: 0x1000, Length: 8, LKey: 0xdeadbe00}
	for _, test := range []struct {
		name   string
		entry  func(l *line) qp.Entry
		op     cq.Op
		status verbs.Status
	}{
		{"local key", func(*line) qp.Entry { return qp.Entry{Op: qp.Send, Local: bad} }, cq.Send, verbs.LocalProtection},
		{"remote key of a write", func(l *line) qp.Entry {
			return qp.Entry{Op: qp.Write, Local: l.a.MR.Local(0, 8), Remote: region.Target{Addr: 1, RKey: 2}}
		}, cq.Write, verbs.RemoteAccess},
		{"end of the peer's region", func(l *line) qp.Entry {
			return qp.Entry{Op: qp.Read, Local: l.a.MR.Local(0, 8), Remote: l.b.Target(mlx5test.Bytes - 7)}
		}, cq.Read, verbs.RemoteAccess},
		{"remote key of an atomic", func(l *line) qp.Entry {
			return qp.Entry{Op: qp.FetchAdd, Local: l.a.MR.Local(0, 8), Remote: region.Target{Addr: 8, RKey: 2}}
		}, cq.FetchAdd, verbs.RemoteAccess},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLine(t, softnic.Config{})
			e := test.entry(l)
			e.ID = 5 // not signaled: failures complete all the same
			require.NoError(t, l.pa.Post(qp.Entry{Op: qp.Write, ID: 4, Remote: l.b.Target(0)}))
			require.NoError(t, l.pa.Post(e))
			require.NoError(t, l.pa.Post(qp.Entry{Op: qp.Write, ID: 6, Remote: l.b.Target(0), Signaled: true}))
			require.NoError(t, l.pa.Receive(7))
			l.pa.Ring()
			all := l.a.Poll(3)
			failed(t, all[0], 5, l.pa, cq.Sends, test.op, test.status)
			for _, c := range all[1:] {
				if c.Ring == cq.Sends {
					failed(t, c, 6, l.pa, cq.Sends, cq.Write, verbs.Flushed)
				} else {
					failed(t, c, 7, l.pa, cq.Receives, cq.Receive, verbs.Flushed)
				}
			}
			require.Equal(t, 16, l.pa.Room(qp.Sends))
			require.Equal(t, verbs.StateErr, state(t, l.pa))
		})
	}
}

// What a peer may do is what both its connection and the region grant.
func TestAccess(t *testing.T) {
	for _, conn := range []region.Access{region.Local, region.RemoteWrite, region.RemoteReadWrite} {
		for _, grant := range []region.Access{region.Local, region.RemoteWrite, region.RemoteReadWrite} {
			for _, op := range []cq.Op{qp.Write, qp.Read, qp.FetchAdd} {
				network := softnic.NewNetwork()
				a, b := mlx5test.NewHost(t, softnic.Config{Network: network}), mlx5test.NewHost(t, softnic.Config{Network: network})
				pa, pb := a.Pair(lineConfig), b.Pair(lineConfig)
				require.NoError(t, pa.Connect(region.Local, pb.Endpoint()))
				require.NoError(t, pb.Connect(conn, pa.Endpoint()))
				mr, err := region.Alloc(b.NIC, grant, 4096)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, mr.Close()) })
				target, err := mr.Remote(0)
				require.NoError(t, err)

				require.NoError(t, pa.Post(qp.Entry{Op: op, Local: a.MR.Local(0, 8), Remote: target, Signaled: true}))
				pa.Ring()
				allows := func(a region.Access) bool {
					return a == region.RemoteReadWrite || a == region.RemoteWrite && op == qp.Write
				}
				want := verbs.Success
				switch {
				case !allows(conn): // an operation that the queue pair does not do at all
					want = verbs.RemoteInvalid
				case !allows(grant):
					want = verbs.RemoteAccess
				}
				got := a.Poll(1)[0].Status
				require.Equal(t, want, got, "%v through %v to %v", op, conn, grant)
			}
		}
	}
}

// A message longer than its receive fails the receive, the queue pair and its
// peer's.
func TestMessageLongerThanItsReceive(t *testing.T) {
	l := newLine(t, softnic.Config{})
	require.NoError(t, l.pb.Receive(1, l.b.MR.Local(0, 99)))
	require.NoError(t, l.pb.Receive(2))
	l.post(qp.Entry{Op: qp.Send, ID: 3, Local: l.a.MR.Local(0, 100), Signaled: true})
	failed(t, l.a.Poll(1)[0], 3, l.pa, cq.Sends, cq.Send, verbs.RemoteInvalid)
	all := l.b.Poll(2)
	failed(t, all[0], 1, l.pb, cq.Receives, cq.Receive, verbs.LocalLength)
	failed(t, all[1], 2, l.pb, cq.Receives, cq.Receive, verbs.Flushed)
	require.Equal(t, verbs.StateErr, state(t, l.pa))
	require.Equal(t, verbs.StateErr, state(t, l.pb))
}

// A send that finds no receive waits for one, however long.
func TestSendWaitsForAReceive(t *testing.T) {
	mlx5test.NeedSoft(t)
	l := newLine(t, softnic.Config{})
	l.post(qp.Entry{Op: qp.Send, ID: 1, Inline: []byte("early"), Signaled: true})
	require.Eventually(t, func() bool { return l.b.Soft.Counters().RNRNaksSent > 8 }, waitTime, tick,
		"asked to wait more often than any number of retries")
	l.a.Quiet()
	require.NoError(t, l.pb.Receive(2, l.b.MR.Local(0, 100)))
	require.Equal(t, success(1, l.pa, cq.Send, 0), l.a.Poll(1)[0])
	require.Equal(t, success(2, l.pb, cq.Receive, 5), l.b.Poll(1)[0])
}

// Entries to a queue pair that was destroyed fail once the retries end.
func TestPeerIsGone(t *testing.T) {
	l := newLine(t, softnic.Config{})
	require.NoError(t, l.pb.Destroy())
	l.post(qp.Entry{Op: qp.Write, ID: 1, Remote: l.b.Target(0), Signaled: true})
	failed(t, l.a.Poll(1)[0], 1, l.pa, cq.Sends, cq.Write, verbs.RetryExceeded)
	if l.a.Soft != nil {
		require.EqualValues(t, 7, l.a.Soft.Counters().Timeouts-1, "retried 7 times")
	}
}

// Fail flushes what is posted, and what is posted afterwards: markers drain it.
func TestFailAndDrain(t *testing.T) {
	eachPages(t, func(t *testing.T, c softnic.Config) {
		l := newLine(t, c)
		for id := range uint64(3) {
			require.NoError(t, l.pa.Post(qp.Entry{Op: qp.Send, ID: id, Signaled: true}))
			require.NoError(t, l.pa.Receive(100+id))
		}
		l.pa.Ring()
		require.NoError(t, l.pa.Fail())
		require.NoError(t, l.pa.Post(qp.Entry{Op: qp.Send, ID: 3, Signaled: true}))
		require.NoError(t, l.pa.Receive(103))
		l.pa.Ring()
		next := map[cq.Ring]uint64{cq.Sends: 0, cq.Receives: 100}
		for _, c := range l.a.Poll(8) {
			op := cq.Send
			if c.Ring == cq.Receives {
				op = cq.Receive
			}
			failed(t, c, next[c.Ring], l.pa, c.Ring, op, verbs.Flushed)
			next[c.Ring]++
		}
		require.Equal(t, 16, l.pa.Room(qp.Sends))
		require.Equal(t, 16, l.pa.Room(qp.Receives))
		require.Equal(t, verbs.StateErr, state(t, l.pa))
		require.NoError(t, l.pa.Fail(), "again")
		l.a.File.Refuse(mlx5test.Command{Write: uapi.CmdModifyQP}, syscall.EPERM, 0)
		require.ErrorIs(t, l.pa.Fail(), syscall.EPERM)
	})
}

// A destroyed queue pair's completions are gone, and those of another one in the
// same queue are not, whatever their order and wherever the ring wraps.
func TestDestroyPurges(t *testing.T) {
	eachPages(t, func(t *testing.T, c softnic.Config) {
		h := mlx5test.NewHost(t, c)
		done, err := cq.New(h.NIC, 32)
		require.NoError(t, err)
		defer func() { require.NoError(t, done.Close()) }()
		pair := func() *qp.Pair {
			p, err := qp.New(done, qp.Config{Sends: 16})
			require.NoError(t, err)
			require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
			return p
		}
		stay := pair()
		defer func() { require.NoError(t, stay.Destroy()) }()
		write := func(p *qp.Pair, id uint64) {
			require.NoError(t, p.Post(qp.Entry{Op: qp.Write, ID: id, Remote: h.Target(0), Signaled: true}))
			p.Ring()
		}
		var id uint64
		for lap := range 40 { // the queue wraps at other places each time
			leave := pair()
			first := id
			for i := range 7 + lap%3 {
				if i%2 == lap%2 {
					write(stay, id)
					id++
				} else {
					write(leave, 1000)
				}
			}
			require.NoError(t, leave.Destroy())
			require.Equal(t, 16, done.Room())
			var got [32]cq.Completion
			n, err := done.Poll(got[:])
			require.NoError(t, err)
			require.EqualValues(t, id-first, n)
			for i, c := range got[:n] {
				require.Equal(t, success(first+uint64(i), stay, cq.Write, 0), c)
			}
		}
	})
}

// A queue pair that the kernel refuses to destroy counts as destroyed, keeps its
// rooms, and its completions reach nobody.
func TestDestroyRefused(t *testing.T) {
	eachPages(t, func(t *testing.T, c softnic.Config) {
		soft, file := mlx5test.Open(t, c)
		nic, err := mlx5.OpenFile(file, mlx5.Config{})
		require.NoError(t, err)
		done, err := cq.New(nic, 32)
		require.NoError(t, err)
		mr, err := region.Alloc(nic, region.RemoteReadWrite, 4096)
		require.NoError(t, err)
		target, err := mr.Remote(0)
		require.NoError(t, err)
		p, err := qp.New(done, qp.Config{Sends: 16})
		require.NoError(t, err)
		require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
		require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Remote: target, Signaled: true}))
		p.Ring()

		file.Refuse(mlx5test.Command{Write: uapi.CmdDestroyQP}, syscall.EBUSY, 0)
		require.ErrorIs(t, p.Destroy(), syscall.EBUSY)
		require.NoError(t, p.Destroy(), "it counts as destroyed")
		require.ErrorIs(t, p.Post(qp.Entry{Op: qp.Write}), qp.ErrDestroyed)
		require.Equal(t, 16, done.Room(), "its room stays taken")
		var got [4]cq.Completion
		n, err := done.Poll(got[:])
		require.NoError(t, err)
		require.Zero(t, n)

		require.ErrorIs(t, done.Close(), syscall.EBUSY, "the kernel's queue is still in use")
		require.NoError(t, done.Close(), "it counts as closed")
		require.NoError(t, mr.Close())
		require.NoError(t, nic.Close(), "which takes all of it away")
		if soft != nil {
			require.Zero(t, soft.Counters().QPs)
		}
	})
}

// Nothing hangs when the device fails: polling and waiting end with its error.
func TestDeviceFails(t *testing.T) {
	mlx5test.NeedSoft(t)
	l := newLine(t, softnic.Config{})
	l.post(qp.Entry{Op: qp.Send, ID: 1, Signaled: true}) // waits for a receive
	l.a.Soft.Fail()
	var c [1]cq.Completion
	require.Eventually(t, func() bool {
		_, err := l.a.Done.Poll(c[:])
		return errors.Is(err, verbs.ErrDeviceFatal)
	}, waitTime, tick)
	require.ErrorIs(t, l.a.Done.Wait(t.Context()), verbs.ErrDeviceFatal)
	require.ErrorIs(t, l.a.Done.Arm(false), verbs.ErrDeviceFatal)
	require.ErrorIs(t, l.a.NIC.Err(), verbs.ErrDeviceFatal)
	// All of it still closes (the host's cleanup).
}
