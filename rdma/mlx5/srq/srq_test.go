package srq_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func TestMain(m *testing.M) { mlx5test.Main(m) }

const (
	waitTime = 20 * time.Second
	tick     = time.Millisecond
)

// rig is queue pairs of one host, each connected to one of another host, that share a
// receive queue.
type rig struct {
	t      *testing.T
	a, b   *mlx5test.Host // b has the queue
	q      *srq.Queue
	sends  []*qp.Pair // of a
	shared []*qp.Pair
}

func newRig(t *testing.T, pairs int, of srq.Config, c softnic.Config) *rig {
	t.Helper()
	c.Network = softnic.NewNetwork()
	r := &rig{t: t, a: mlx5test.NewHost(t, c), b: mlx5test.NewHost(t, c)}
	var err error
	r.q, err = srq.New(r.b.NIC, of)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.q.Close()) })
	for range pairs {
		pa, pb := r.a.Pair(qp.Config{Sends: 16, Receives: 4}), r.b.Pair(qp.Config{Sends: 4, SRQ: r.q})
		require.NoError(t, pa.Connect(region.Local, pb.Endpoint()))
		require.NoError(t, pb.Connect(region.RemoteWrite, pa.Endpoint()))
		r.sends, r.shared = append(r.sends, pa), append(r.shared, pb)
	}
	return r
}

// send sends n bytes from queue pair i of a.
func (r *rig) send(i, off, n int) {
	r.t.Helper()
	require.NoError(r.t, r.sends[i].Post(qp.Entry{Op: qp.Send, Local: r.a.MR.Local(off, n), Signaled: true}))
	r.sends[i].Ring()
}

// sent sends, and waits until that is done.
func (r *rig) sent(i, off, n int) {
	r.t.Helper()
	r.send(i, off, n)
	require.NoError(r.t, r.one(r.a).Err())
}

func (r *rig) one(h *mlx5test.Host) *cq.Completion {
	r.t.Helper()
	return &h.Poll(1)[0]
}

func (r *rig) receive(id uint64, off, n int) {
	r.t.Helper()
	require.NoError(r.t, r.q.Receive(id, r.b.MR.Local(off, n)))
}

// The oldest receive takes the next message, of whatever queue pair, and completes as
// that queue pair's.
func TestShared(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		r := newRig(t, 3, srq.Config{Receives: 4, Segments: 2}, c)
		require.Equal(t, srq.Limits{Receives: 7, Segments: 3, Message: r.b.NIC.Limits().Message}, r.q.Limits())
		require.NotZero(t, r.q.Number())
		require.Same(t, r.b.NIC, r.q.NIC())
		want := r.a.Fill(0, 300, 1)
		require.NoError(t, r.q.Receive(10, r.b.MR.Local(0, 100), r.b.MR.Local(5000, 0), r.b.MR.Local(1000, 200)))
		r.receive(11, 2000, 300)
		require.NoError(t, r.q.Receive(12))
		require.Equal(t, 4, r.q.Room())
		r.sent(2, 0, 300)
		r.sent(0, 0, 299)
		r.sent(1, 0, 0)
		got := func(id uint64, pair int, bytes uint32) {
			require.Equal(t, cq.Completion{ID: id, QPN: r.shared[pair].Number(), Ring: cq.Receives, Op: cq.Receive, Bytes: bytes}, *r.one(r.b))
		}
		got(10, 2, 300)
		got(11, 0, 299)
		got(12, 1, 0)
		require.Equal(t, 7, r.q.Room())
		memory := r.b.MR.Bytes()
		require.Equal(t, want, append(bytes.Clone(memory[:100]), memory[1000:1200]...))
		require.Equal(t, want[:299], memory[2000:2299])

		// A write with immediate takes a receive too.
		r.receive(13, 0, 8)
		require.NoError(t, r.sends[1].Post(qp.Entry{Op: qp.WriteImm, Imm: 77, Local: r.a.MR.Local(0, 5), Remote: r.b.Target(9000), Signaled: true}))
		r.sends[1].Ring()
		require.NoError(t, r.one(r.a).Err())
		require.Equal(t, cq.Completion{ID: 13, QPN: r.shared[1].Number(), Ring: cq.Receives, Op: cq.ReceiveWrite, Bytes: 5, Imm: 77, HasImm: true}, *r.one(r.b))
		require.Equal(t, want[:5], memory[9000:9005])
	})
}

// Messages of several queue pairs, polled late, with receives posted in lists of any length,
// around the list of entries many times: each arrives once, in its queue pair's order.
func TestSharedAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		const pairs, slot = 4, 64
		r := newRig(t, pairs, srq.Config{Receives: 15}, c)
		random := rand.New(rand.NewPCG(seed, 0))
		messages := 3000
		if testing.Short() || c.Faults.Loss > 0 {
			messages = 300
		}
		free := random.Perm(15)
		of := map[uint32]int{}
		for i, p := range r.shared {
			of[p.Number()] = i
		}
		var sent, arrived [pairs]byte // counts, which messages carry
		under, total := 0, 0
		for total < messages || under > 0 {
			if n := random.IntN(len(free) + 1); n > 0 {
				var list []work.Buffer
				for _, i := range free[:n] {
					list = append(list, work.Buffer{ID: uint64(i), Into: r.b.MR.Local(i*slot, slot)})
				}
				posted, err := r.q.ReceiveAll(list)
				require.NoError(t, err)
				require.Equal(t, n, posted)
				free = free[n:]
			}
			for under < 15-len(free) && total < messages && random.IntN(4) > 0 {
				i := random.IntN(pairs)
				if r.sends[i].Room(qp.Sends) == 0 {
					break
				}
				at := total % 1000 * 64
				r.a.MR.Bytes()[at] = byte(i)
				r.a.MR.Bytes()[at+1] = sent[i]
				sent[i]++
				r.send(i, at, 2)
				under++
				total++
			}
			var done [16]cq.Completion
			_, err := r.a.Done.Poll(done[:])
			require.NoError(t, err)
			for _, c := range r.b.Poll(random.IntN(under + 1)) {
				require.NoError(t, c.Err())
				i := of[c.QPN]
				require.Equal(t, []byte{byte(i), arrived[i]}, r.b.MR.Bytes()[c.ID*slot:][:2])
				arrived[i]++
				free = append(free, int(c.ID))
				under--
			}
		}
		require.Equal(t, sent, arrived)
	})
}

// The doorbell record counts in 32 bits, where that of a queue pair has 16.
func TestManyReceives(t *testing.T) {
	r := newRig(t, 1, srq.Config{Receives: 15}, softnic.Config{})
	list, sends := make([]work.Buffer, 15), make([]qp.Entry, 15)
	for i := range list {
		list[i].ID, sends[i] = uint64(i), qp.Entry{Op: qp.Send}
	}
	sends[14].Signaled = true
	for range 1<<16/15 + 2 {
		_, err := r.q.ReceiveAll(list)
		require.NoError(t, err)
		_, err = r.sends[0].Submit(sends)
		require.NoError(t, err)
		for i, c := range r.b.Poll(15) {
			require.EqualValues(t, i, c.ID)
		}
		r.a.Poll(1)
	}
}

// A message that finds no receive waits for one; those of other queue pairs do too, as
// nothing here keeps one of them from taking all there are.
func TestStarved(t *testing.T) {
	r := newRig(t, 2, srq.Config{Receives: 1}, softnic.Config{})
	require.Equal(t, 1, r.q.Limits().Receives)
	r.receive(1, 0, 8)
	require.Equal(t, srq.ErrRoom, r.q.Receive(2))
	r.sent(0, 0, 8)
	require.Equal(t, srq.ErrRoom, r.q.Receive(2), "as the completion was not polled")
	r.send(1, 0, 8)
	require.Equal(t, r.shared[0].Number(), r.one(r.b).QPN)
	r.a.Quiet()
	r.receive(2, 0, 8)
	c := r.one(r.b)
	require.EqualValues(t, 2, c.ID)
	require.Equal(t, r.shared[1].Number(), c.QPN)
	require.NoError(t, r.one(r.a).Err())
}

func TestLimit(t *testing.T) {
	r := newRig(t, 1, srq.Config{Receives: 7}, softnic.Config{})
	events := make(chan mlx5.Event, 8)
	defer r.b.NIC.Events(func(e mlx5.Event) { events <- e })()
	for i := range 4 {
		r.receive(uint64(i), 0, 8)
	}
	require.Error(t, r.q.SetLimit(-1))
	require.Error(t, r.q.SetLimit(8))
	require.NoError(t, r.q.SetLimit(3))
	r.sent(0, 0, 8)
	r.sent(0, 0, 8)
	select {
	case e := <-events:
		require.Equal(t, mlx5.Event{Type: verbs.EventSRQLimit, SRQN: r.q.Number()}, e)
	case <-time.After(waitTime):
		t.Fatal("no event")
	}
	require.NoError(t, r.q.SetLimit(7))
	require.NoError(t, r.q.SetLimit(0))
	r.sent(0, 0, 8)
	r.sent(0, 0, 8)
	r.b.Poll(4)
	require.Empty(t, events)
}

func TestPostingAllocatesNothing(t *testing.T) {
	r := newRig(t, 1, srq.Config{Receives: 7}, softnic.Config{})
	into := r.b.MR.Local(0, 8)
	list := []work.Buffer{{Into: into}, {Into: into}}
	entry := qp.Entry{Op: qp.Send, Local: r.a.MR.Local(0, 8), Signaled: true}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := r.q.ReceiveAll(list); err != nil {
			t.Fatal(err)
		}
		for range list {
			if err := r.sends[0].Post(entry); err != nil {
				t.Fatal(err)
			}
		}
		r.sends[0].Ring()
		for _, q := range []*cq.Queue{r.a.Done, r.b.Done} {
			var c [1]cq.Completion
			for n := 0; n < len(list); {
				k, err := q.Poll(c[:])
				if err != nil {
					t.Fatal(err)
				}
				n += k
			}
		}
	}))
}
