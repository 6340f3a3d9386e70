package softnic_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// drain polls without waiting: on the in-memory link everything is done when
// Ring returns.
func (e *end) drain(t testing.TB, n int) {
	var some [64]cq.Completion
	for n > 0 {
		k, err := e.done.Poll(some[:])
		if err != nil {
			t.Fatal(err)
		}
		for i := range k {
			if err := some[i].Err(); err != nil {
				t.Fatal(err)
			}
		}
		n -= k
	}
}

func BenchmarkSendToItself(b *testing.B) {
	soft := newNIC(b, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork()})
	e := newEnd(b, soft, region.Local)
	connect(b, e, e, region.Local)
	b.SetBytes(64)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.pair.Receive(1, e.mr.Local(4096, 64)); err != nil {
			b.Fatal(err)
		}
		if err := e.pair.Post(qp.Entry{Op: qp.Send, Local: e.mr.Local(0, 64), Signaled: true}); err != nil {
			b.Fatal(err)
		}
		e.pair.Ring()
		e.drain(b, 2)
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4096, 65536, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			network := softnic.NewNetwork()
			cfg := softnic.Config{Link: softnic.LinkMemory, Network: network}
			x := newEnd(b, newNIC(b, cfg), region.Local)
			y := newEnd(b, newNIC(b, cfg), region.RemoteWrite)
			connect(b, x, y, region.RemoteWrite)
			remote, err := y.mr.Remote(0)
			require.NoError(b, err)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := x.pair.Post(qp.Entry{Op: qp.Write, Local: x.mr.Local(0, size), Remote: remote, Signaled: true}); err != nil {
					b.Fatal(err)
				}
				x.pair.Ring()
				x.drain(b, 1)
			}
		})
	}
}
