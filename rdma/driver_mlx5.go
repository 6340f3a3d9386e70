package rdma

import (
	"errors"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// mlx5Card is a ConnectX, in hardware or software.
type mlx5Card struct{ *mlx5.NIC }

func openMLX5(key portKey) (card, error) {
	n, err := mlx5.Config{Port: key.port, Addr: key.addr, NetDev: key.netdev}.Open(key.device)
	if err != nil {
		return nil, err
	}
	return mlx5Card{n}, nil
}

// mlx5Pair is a queue pair whose doorbell cannot fail.
type mlx5Pair struct{ *qp.Pair }

func (p mlx5Pair) Ring() error {
	p.Pair.Ring()
	return nil
}

func (c mlx5Card) newPair(sends, receives int) (queuePair, completions, error) {
	done, err := cq.New(c.NIC, ringSize(sends)+ringSize(receives))
	if err != nil {
		return nil, nil, err
	}
	q, err := qp.New(done, qp.Config{Sends: sends, Receives: receives})
	if err != nil {
		return nil, nil, errors.Join(err, done.Close())
	}
	return mlx5Pair{q}, done, nil
}

// ringSize is how many entries qp.New makes of n: at least 4, a power of two.
func ringSize(n int) int {
	size := 4
	for size < n {
		size *= 2
	}
	return size
}

func (c mlx5Card) register(n int) (conn.Slab, error) {
	mr, err := region.Alloc(c.NIC, region.Local, n)
	if err != nil {
		return conn.Slab{}, err
	}
	s := mr.Local(0, n)
	return conn.Slab{Mem: mr.Bytes(), Addr: s.Addr, LKey: s.LKey, Free: func() { mr.Close() }}, nil
}
