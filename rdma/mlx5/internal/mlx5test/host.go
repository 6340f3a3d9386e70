package mlx5test

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

// Host is one opened software NIC, or device of the kernel's, with a completion queue
// and a region.
type Host struct {
	t    testing.TB
	Soft *softnic.NIC // nil on a kernel's device
	File *File
	NIC  *mlx5.NIC
	Done *cq.Queue
	MR   *region.Region // granting everything
}

const (
	Bytes       = 1 << 20 // of a host's region
	Completions = 1024    // of its completion queue
)

// NewHost makes a host. All of it is closed with the test.
func NewHost(t testing.TB, c softnic.Config) *Host {
	t.Helper()
	h := &Host{t: t}
	h.Soft, h.File = Open(t, c)
	var err error
	h.NIC, err = mlx5.OpenFile(h.File, mlx5.Config{GIDs: GIDs(h.Soft)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.NIC.Close()) })
	h.Done, err = cq.New(h.NIC, Completions)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Done.Close()) })
	h.MR, err = region.Alloc(h.NIC, region.RemoteReadWrite, Bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.MR.Close()) })
	return h
}

// GIDs stands in for sysfs where the kernel has no command for the table. No kernel that
// has the tests run on its device is so old.
func GIDs(soft *softnic.NIC) func(uint8) ([]verbs.GIDEntry, error) {
	return func(uint8) ([]verbs.GIDEntry, error) {
		if soft.LinkLayer() == verbs.LinkInfiniBand {
			return []verbs.GIDEntry{{GID: soft.GID(), Type: verbs.GIDTypeInfiniBand}}, nil
		}
		return []verbs.GIDEntry{{Index: 3, GID: soft.GID(), Type: verbs.GIDTypeRoCEv2}}, nil
	}
}

// Pair makes a queue pair, which is destroyed with the test.
func (h *Host) Pair(c qp.Config) *qp.Pair {
	h.t.Helper()
	p, err := qp.New(h.Done, c)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, p.Destroy()) })
	return p
}

// Poll waits for n completions, which must all be there within seconds.
func (h *Host) Poll(n int) []cq.Completion {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all []cq.Completion
	c := make([]cq.Completion, n)
	for len(all) < n {
		k, err := h.Done.Poll(c[:n-len(all)])
		require.NoError(h.t, err)
		all = append(all, c[:k]...)
		if k == 0 {
			require.NoError(h.t, h.Done.Wait(ctx), "waiting for %d completions, have %v", n, all)
		}
	}
	return all
}

// Quiet asserts that nothing more completes on the host.
func (h *Host) Quiet() {
	h.t.Helper()
	var c [1]cq.Completion
	n, err := h.Done.Poll(c[:])
	require.NoError(h.t, err)
	require.Zero(h.t, n, "%+v", c[0])
}

// Fill puts a pattern into the region that differs from seed to seed.
func (h *Host) Fill(off, n int, seed byte) []byte {
	b := h.MR.Bytes()[off:][:n]
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
	return b
}

// Target is a place in the region, for peers.
func (h *Host) Target(off int) region.Target {
	t, err := h.MR.Remote(off)
	require.NoError(h.t, err)
	return t
}
