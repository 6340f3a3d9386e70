package qp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// Posting, receiving, ringing, polling and arming allocate nothing, whatever the
// operation.
func TestNoAllocations(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		if c.Faults.Loss > 0 {
			t.Skip("the impairing link allocates")
		}
		l := newSelf(t, c)
		local, second, target := l.a.MR.Local(0, 64), l.a.MR.Local(64, 8), l.b.Target(4096)
		inline := []byte("inline")
		var polled [8]cq.Completion
		run := func(e qp.Entry) func() {
			return func() {
				if err := l.pb.Receive(1, local, second); err != nil {
					t.Fatal(err)
				}
				if err := l.pa.Post(e); err != nil {
					t.Fatal(err)
				}
				l.pa.Ring()
				for sent := false; !sent; {
					n, err := l.a.Done.Poll(polled[:])
					if err != nil {
						t.Fatal(err)
					}
					for _, c := range polled[:n] {
						if c.Status != 0 {
							t.Fatal(c.Err())
						}
						sent = sent || c.Ring == cq.Sends
					}
				}
				if l.pb.Room(qp.Receives) < 8 { // an operation that takes none
					if err := l.pa.Post(qp.Entry{Op: qp.Send}); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.a.Done.Arm(false); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, e := range []qp.Entry{
			{Op: qp.Send, Local: local}, {Op: qp.SendImm, Inline: inline},
			{Op: qp.Write, Local: local, Locals: []region.Segment{second}, Remote: target},
			{Op: qp.WriteImm, Inline: inline, Remote: target}, {Op: qp.Read, Local: local, Remote: target},
			{Op: qp.CompareSwap, Local: second, Remote: target}, {Op: qp.FetchAdd, Local: second, Remote: target},
		} {
			e.Signaled = true
			f := run(e)
			for range 100 { // every slot of the rings, and what the software NIC keeps for it, is warm
				f()
			}
			require.Zero(t, testing.AllocsPerRun(1000, f), e.Op.String())
		}
		require.ErrorIs(t, l.pa.Post(qp.Entry{}), qp.ErrOp)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = l.pa.Post(qp.Entry{Op: qp.Write, Locals: []region.Segment{{Length: 1 << 31}}})
			_ = l.pa.Receive(1, l.a.MR.Local(-1, 1))
		}), "refusals")
	})
}

// BenchmarkOperation is one operation, signaled, from Post to its completion,
// on the software NIC.
func BenchmarkOperation(b *testing.B) {
	for _, size := range []int{8, 4096, 65536} {
		for _, op := range []cq.Op{qp.Write, qp.Read} {
			b.Run(fmt.Sprintf("%v/%d", op, size), func(b *testing.B) {
				h := mlx5test.NewHost(b, softnic.Config{})
				p := h.Pair(qp.Config{Sends: 64})
				require.NoError(b, p.Connect(region.RemoteReadWrite, p.Endpoint()))
				e := qp.Entry{Op: op, Local: h.MR.Local(0, size), Remote: h.Target(mlx5test.Bytes / 2), Signaled: true}
				var c [4]cq.Completion
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := p.Post(e); err != nil {
						b.Fatal(err)
					}
					p.Ring()
					for n := 0; n == 0; {
						n, _ = h.Done.Poll(c[:])
					}
				}
				require.NoError(b, c[0].Err())
			})
		}
	}
}

// BenchmarkReceive posts receives and takes the sends that fill them.
func BenchmarkReceive(b *testing.B) {
	h := mlx5test.NewHost(b, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 64, Receives: 64})
	require.NoError(b, p.Connect(region.Local, p.Endpoint()))
	e := qp.Entry{Op: qp.Send, Inline: make([]byte, 8), Signaled: true}
	into := h.MR.Local(0, 64)
	var c [4]cq.Completion
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Receive(1, into); err != nil {
			b.Fatal(err)
		}
		if err := p.Post(e); err != nil {
			b.Fatal(err)
		}
		p.Ring()
		for n := 0; n < 2; {
			k, err := h.Done.Poll(c[:])
			if err != nil {
				b.Fatal(err)
			}
			n += k
		}
	}
}
