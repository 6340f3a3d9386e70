package qp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// How long a condition may take, and how often it is looked at.
const (
	waitTime = 20 * time.Second
	tick     = time.Millisecond
)

func TestMain(m *testing.M) { mlx5test.Main(m) }

// line is two connected queue pairs.
type line struct {
	t    *testing.T
	a, b *mlx5test.Host
	pa   *qp.Pair
	pb   *qp.Pair
}

var lineConfig = qp.Config{Sends: 16, Receives: 16, SendSegments: 4, ReceiveSegments: 4, Inline: 100}

func newLine(t *testing.T, c softnic.Config) *line {
	t.Helper()
	network := softnic.NewNetwork()
	c.Network = network
	l := &line{t: t, a: mlx5test.NewHost(t, c), b: mlx5test.NewHost(t, c)}
	l.pa, l.pb = l.a.Pair(lineConfig), l.b.Pair(lineConfig)
	require.NoError(t, l.pa.Connect(region.RemoteReadWrite, l.pb.Endpoint()))
	require.NoError(t, l.pb.Connect(region.RemoteReadWrite, l.pa.Endpoint()))
	return l
}

// self is a queue pair connected to itself, as a line with one host.
func newSelf(t *testing.T, c softnic.Config) *line {
	t.Helper()
	h := mlx5test.NewHost(t, c)
	p := h.Pair(lineConfig)
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	return &line{t: t, a: h, b: h, pa: p, pb: p}
}

// post posts and rings on a's side.
func (l *line) post(e qp.Entry) {
	l.t.Helper()
	require.NoError(l.t, l.pa.Post(e))
	l.pa.Ring()
}

func success(id uint64, p *qp.Pair, op cq.Op, bytes uint32) cq.Completion {
	c := cq.Completion{ID: id, QPN: p.Number(), Op: op, Bytes: bytes}
	if op == cq.Receive || op == cq.ReceiveWrite {
		c.Ring = cq.Receives
	}
	return c
}
