package softnic_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// end is one end of a connection made by the mlx5 driver.
type end struct {
	soft *softnic.NIC
	nic  *mlx5.NIC
	done *cq.Queue
	pair *qp.Pair
	mr   *region.Region
}

const endBytes = 1 << 20

// newNIC makes a software NIC that lasts as long as the test, and leaves no
// object behind.
func newNIC(t testing.TB, cfg softnic.Config) *softnic.NIC {
	soft, err := softnic.New(&cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		c := soft.Counters()
		require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.EventFiles, "%+v", c)
		require.Zero(t, c.PinnedBytes)
		require.NoError(t, soft.Close())
	})
	return soft
}

func newEnd(t testing.TB, soft *softnic.NIC, access region.Access) *end {
	file, err := soft.Open()
	require.NoError(t, err)
	return newEndOn(t, soft, file, access)
}

func newEndOn(t testing.TB, soft *softnic.NIC, file verbs.File, access region.Access) *end {
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	e := &end{soft: soft, nic: nic}
	e.done, err = cq.New(nic, 512)
	require.NoError(t, err)
	e.pair, err = qp.New(e.done, qp.Config{Sends: 128, Receives: 128, SendSegments: 4, ReceiveSegments: 4, Inline: 64})
	require.NoError(t, err)
	e.mr, err = region.Alloc(nic, access, endBytes)
	require.NoError(t, err)
	t.Cleanup(func() { e.close(t) })
	return e
}

func (e *end) close(t testing.TB) {
	require.NoError(t, e.pair.Destroy())
	require.NoError(t, e.done.Close())
	require.NoError(t, e.mr.Close())
	require.NoError(t, e.nic.Close())
}

func connect(t testing.TB, a, b *end, access region.Access) {
	require.NoError(t, a.pair.Connect(access, b.pair.Endpoint()))
	if a != b {
		require.NoError(t, b.pair.Connect(access, a.pair.Endpoint()))
	}
}

// poll waits for n completions.
func (e *end) poll(t testing.TB, n int) []cq.Completion {
	t.Helper()
	var all []cq.Completion
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for len(all) < n {
		var some [64]cq.Completion
		k, err := e.done.Poll(some[:])
		require.NoError(t, err)
		all = append(all, some[:k]...)
		if k == 0 {
			require.NoError(t, e.done.Wait(ctx))
		}
	}
	require.Len(t, all, n)
	return all
}

func TestSendToItself(t *testing.T) {
	soft := newNIC(t, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork()})
	e := newEnd(t, soft, region.Local)
	connect(t, e, e, region.Local)
	copy(e.mr.Bytes(), "hello")
	require.NoError(t, e.pair.Receive(7, e.mr.Local(4096, 4096)))
	require.NoError(t, e.pair.Post(qp.Entry{Op: qp.Send, ID: 9, Local: e.mr.Local(0, 5), Signaled: true}))
	e.pair.Ring()
	for _, c := range e.poll(t, 2) {
		require.NoError(t, c.Err())
	}
	require.Equal(t, "hello", string(e.mr.Bytes()[4096:4101]))
}
