package srq_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/mlx5/srq"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

func TestReceiveRefuses(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	q, err := srq.New(h.NIC, srq.Config{Receives: 3, Segments: 3})
	require.NoError(t, err)
	mr := h.MR
	eight := mr.Local(0, 8)
	require.Equal(t, work.ErrSegments, q.Receive(1, eight, eight, eight, eight))
	require.Equal(t, work.ErrRange, q.Receive(1, mr.Local(0, mlx5test.Bytes+1)))
	require.Equal(t, work.ErrTooLong, q.Receive(1, region.Segment{Length: 1<<31 - 1}))
	require.Equal(t, 3, q.Room())
	n, err := q.ReceiveAll([]work.Buffer{{Into: eight}, {Into: mr.Local(-1, 2)}, {Into: eight}})
	require.Equal(t, 1, n)
	require.Equal(t, work.ErrRange, err)
	n, err = q.ReceiveAll([]work.Buffer{{Into: eight}, {Into: eight}, {Into: eight}})
	require.Equal(t, 2, n)
	require.Equal(t, srq.ErrRoom, err)
	require.NoError(t, q.Close())
	require.NoError(t, q.Close(), "again")
	require.Equal(t, srq.ErrClosed, q.Receive(1))
	require.Equal(t, srq.ErrClosed, q.SetLimit(1))
	_, err = qp.New(h.Done, qp.Config{Sends: 1, SRQ: q})
	require.ErrorIs(t, err, srq.ErrClosed)
	require.Equal(t, mlx5test.Completions, h.Done.Room())
}

func TestNewRefuses(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	most := h.NIC.Limits()
	for _, c := range []srq.Config{
		{}, {Receives: -1}, {Receives: 1, Segments: -1}, {Receives: most.SharedReceives + 1},
		{Receives: 1, Segments: most.SharedSegments + 1}, {Receives: 1 << 40}, {Receives: 1, Segments: 1 << 40},
	} {
		_, err := srq.New(h.NIC, c)
		require.Error(t, err, "%+v", c)
		require.NotErrorIs(t, err, syscall.EINVAL, "%+v: it did not come to the kernel", c)
	}
	q, err := srq.New(h.NIC, srq.Config{Receives: most.SharedReceives, Segments: most.SharedSegments})
	require.NoError(t, err)
	require.Equal(t, most.SharedReceives, q.Limits().Receives)
	require.Equal(t, most.SharedSegments, q.Limits().Segments)
	require.NoError(t, q.Close())
}

func TestPairRefuses(t *testing.T) {
	h, other := mlx5test.NewHost(t, softnic.Config{}), mlx5test.NewHost(t, softnic.Config{})
	q, err := srq.New(h.NIC, srq.Config{Receives: 3})
	require.NoError(t, err)
	for _, c := range []qp.Config{{Sends: 1, SRQ: q, Receives: 1}, {Sends: 1, SRQ: q, ReceiveSegments: 1}} {
		_, err := qp.New(h.Done, c)
		require.ErrorContains(t, err, "beside a shared receive queue")
	}
	_, err = qp.New(other.Done, qp.Config{Sends: 1, SRQ: q})
	require.ErrorContains(t, err, "shared receive queue is of another NIC")
	p, err := qp.New(h.Done, qp.Config{Sends: 1, SRQ: q})
	require.NoError(t, err)
	require.NoError(t, p.Connect(region.Local, p.Endpoint()))
	require.ErrorIs(t, p.Receive(1), qp.ErrNoReceives)
	require.Zero(t, p.Room(qp.Receives))
	require.Equal(t, srq.ErrBusy, q.Close())
	require.NoError(t, q.Receive(1), "it is not closed")
	require.NoError(t, p.Destroy())
	require.NoError(t, q.Close())
}

// The queue pairs of one completion queue leave no more completions there than their shared
// receive queue holds, and are counted so.
func TestRoomsAreCountedOnce(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	q, err := srq.New(h.NIC, srq.Config{Receives: 7})
	require.NoError(t, err)
	done, err := cq.New(h.NIC, 16)
	require.NoError(t, err)
	var pairs []*qp.Pair
	for range 9 {
		p, err := qp.New(done, qp.Config{Sends: 1, SRQ: q})
		require.NoError(t, err)
		pairs = append(pairs, p)
	}
	require.Zero(t, done.Room())
	_, err = qp.New(done, qp.Config{Sends: 1, SRQ: q})
	require.ErrorIs(t, err, cq.ErrFull)
	for i, p := range pairs {
		require.Equal(t, i, done.Room())
		require.NoError(t, p.Destroy())
	}
	require.Equal(t, 16, done.Room())
	_, err = qp.New(done, qp.Config{Sends: 16, SRQ: q})
	require.ErrorIs(t, err, cq.ErrFull, "there is no room for its receives")
	require.Equal(t, 16, done.Room())
	require.NoError(t, q.Close(), "nobody uses it")
	require.NoError(t, done.Close())
}

// What completed for a queue pair and was not polled is free again when that is destroyed; the
// others' completions stay.
func TestDestroyFreesReceives(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		r := newRig(t, 2, srq.Config{Receives: 3}, c)
		for i := range 3 {
			r.receive(uint64(i), 0, 8)
		}
		r.sent(0, 0, 8)
		r.sent(1, 0, 8)
		r.sent(0, 0, 8)
		require.NoError(t, r.shared[0].Destroy())
		require.Equal(t, 2, r.q.Room())
		kept := r.one(r.b)
		require.EqualValues(t, 1, kept.ID)
		require.Equal(t, r.shared[1].Number(), kept.QPN)
		r.b.Quiet()
		for lap := range 8 { // the list is whole
			r.receive(uint64(lap), 0, 8)
			r.sent(1, 0, 8)
			require.EqualValues(t, lap, r.one(r.b).ID)
		}
	})
}

// A queue pair that fails takes no receive any more, and says so. Those posted are the
// others'.
func TestFail(t *testing.T) {
	r := newRig(t, 2, srq.Config{Receives: 3}, softnic.Config{})
	events := make(chan mlx5.Event, 8)
	defer r.b.NIC.Events(func(e mlx5.Event) { events <- e })()
	r.receive(1, 0, 8)
	require.NoError(t, r.shared[0].Fail())
	select {
	case e := <-events:
		require.Equal(t, mlx5.Event{Type: verbs.EventLastWQEReached, QPN: r.shared[0].Number()}, e)
	case <-time.After(waitTime):
		t.Fatal("no event")
	}
	r.b.Quiet()
	r.sent(1, 0, 8)
	require.EqualValues(t, 1, r.one(r.b).ID)
}

// A message that does not fit fails its receive and its queue pair, and no other.
func TestTooLong(t *testing.T) {
	r := newRig(t, 2, srq.Config{Receives: 3}, softnic.Config{})
	r.receive(1, 0, 8)
	r.receive(2, 0, 8)
	r.send(0, 0, 9)
	c := r.one(r.b)
	require.EqualValues(t, 1, c.ID)
	require.Equal(t, cq.Receives, c.Ring)
	require.Equal(t, verbs.LocalLength, c.Status)
	require.Equal(t, r.shared[0].Number(), c.QPN)
	require.Equal(t, verbs.RemoteInvalid, r.one(r.a).Status)
	require.Equal(t, 2, r.q.Room())
	r.sent(1, 0, 8)
	require.EqualValues(t, 2, r.one(r.b).ID)
}

// What the kernel refuses leaves nothing behind but what it may still use.
func TestKernelRefuses(t *testing.T) {
	mlx5test.NeedSoft(t)
	h := mlx5test.NewHost(t, softnic.Config{})
	create := mlx5test.Command{Write: uapi.CmdCreateSRQ}
	h.File.Refuse(create, syscall.ENOMEM, 0)
	_, err := srq.New(h.NIC, srq.Config{Receives: 3})
	require.ErrorIs(t, err, syscall.ENOMEM)
	h.File.Refuse(create, 0, 0)
	q, err := srq.New(h.NIC, srq.Config{Receives: 3})
	require.NoError(t, err)

	h.File.Refuse(mlx5test.Command{Write: uapi.CmdCreateQP}, syscall.ENOMEM, 0)
	_, err = qp.New(h.Done, qp.Config{Sends: 1, SRQ: q})
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, mlx5test.Completions, h.Done.Room())

	h.File.Refuse(mlx5test.Command{Write: uapi.CmdCreateQP}, 0, 0)
	done, err := cq.New(h.NIC, 4)
	require.NoError(t, err)
	p, err := qp.New(done, qp.Config{Sends: 1, SRQ: q})
	require.NoError(t, err)
	h.File.Refuse(mlx5test.Command{Write: uapi.CmdDestroyQP}, syscall.EPERM, 0)
	require.ErrorIs(t, p.Destroy(), syscall.EPERM)
	require.Zero(t, done.Room(), "what it has posted may complete yet")
	require.ErrorIs(t, q.Close(), syscall.EBUSY, "of the kernel's, who has the queue pair")
	require.ErrorIs(t, done.Close(), syscall.EBUSY)
	require.NoError(t, q.Close(), "it counts as closed")
	require.Equal(t, 1, h.Soft.Counters().SRQs)
}
