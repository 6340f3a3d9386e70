//go:build !race

package softnic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// Nothing is allocated for a message, on either side of a connection.
func TestNoAllocations(t *testing.T) {
	cfg := softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork()}
	a := newEnd(t, newNIC(t, cfg), region.Local)
	b := newEnd(t, newNIC(t, cfg), region.RemoteWrite)
	connect(t, a, b, region.RemoteWrite)
	remote, err := b.mr.Remote(0)
	require.NoError(t, err)
	message := func() {
		require.NoError(t, b.pair.Receive(1, b.mr.Local(4096, 64)))
		require.NoError(t, a.pair.Post(qp.Entry{Op: qp.Write, Local: a.mr.Local(0, 65536), Remote: remote}))
		require.NoError(t, a.pair.Post(qp.Entry{Op: qp.Send, Local: a.mr.Local(0, 64), Signaled: true}))
		a.pair.Ring()
		a.drain(t, 1)
		b.drain(t, 1)
	}
	for range 200 { // every slot once
		message()
	}
	require.Less(t, testing.AllocsPerRun(500, message), 1.0)
}
