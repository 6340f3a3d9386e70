package softnic_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
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

// BenchmarkQueuePairs is what a WRITE of 64 bytes costs, each by the next of so many
// queue pairs of one NIC to as many of another's, 16 under way.
func BenchmarkQueuePairs(b *testing.B) {
	for _, mode := range []softnic.LinkMode{softnic.LinkMemory, softnic.LinkUDP} {
		for _, pairs := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", map[softnic.LinkMode]string{softnic.LinkMemory: "memory", softnic.LinkUDP: "udp"}[mode], pairs), func(b *testing.B) {
				benchmarkQueuePairs(b, mode, pairs)
			})
		}
	}
}

func benchmarkQueuePairs(b *testing.B, mode softnic.LinkMode, pairs int) {
	const depth, bytes = 16, 64
	networks := [2]*softnic.Network{softnic.NewNetwork(), softnic.NewNetwork()}
	if mode == softnic.LinkMemory {
		networks[1] = networks[0]
	}
	var nics [2]*mlx5.NIC
	var queues [2]*cq.Queue
	var mrs [2]*region.Region
	all := [2][]*qp.Pair{make([]*qp.Pair, pairs), make([]*qp.Pair, pairs)}
	for i := range nics {
		soft := newNIC(b, softnic.Config{Link: mode, NoSharedMemory: true, Network: networks[i], Addr: netip.AddrFrom4([4]byte{127, 99, 1, byte(1 + i)})})
		file, err := soft.Open()
		require.NoError(b, err)
		nics[i], err = mlx5.OpenFile(file, mlx5.Config{})
		require.NoError(b, err)
		queues[i], err = cq.New(nics[i], pairs*depth)
		require.NoError(b, err)
		mrs[i], err = region.Alloc(nics[i], region.RemoteWrite, bytes)
		require.NoError(b, err)
		for k := range all[i] {
			all[i][k], err = qp.New(queues[i], qp.Config{Sends: depth})
			require.NoError(b, err)
		}
	}
	for k := range pairs {
		require.NoError(b, all[0][k].Connect(region.RemoteWrite, all[1][k].Endpoint()))
		require.NoError(b, all[1][k].Connect(region.RemoteWrite, all[0][k].Endpoint()))
	}
	remote, err := mrs[1].Remote(0)
	require.NoError(b, err)
	var some [depth]cq.Completion
	posted, done := 0, 0
	reap := func(until int) {
		for done < until {
			n, err := queues[0].Poll(some[:])
			if err == nil && n == 0 {
				err = queues[0].Wait(context.Background())
			}
			for _, c := range some[:n] {
				if c.Err() != nil {
					err = c.Err()
				}
			}
			if err != nil {
				b.Fatal(err)
			}
			done += n
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		reap(posted - depth + 1)
		q := all[0][posted%pairs]
		if err := q.Post(qp.Entry{Op: qp.Write, Local: mrs[0].Local(0, bytes), Remote: remote, Signaled: true}); err != nil {
			b.Fatal(err)
		}
		q.Ring()
		posted++
	}
	reap(posted)
	b.StopTimer()
	for i := range nics {
		for _, q := range all[i] {
			require.NoError(b, q.Destroy())
		}
		require.NoError(b, queues[i].Close())
		require.NoError(b, mrs[i].Close())
		require.NoError(b, nics[i].Close())
	}
}
