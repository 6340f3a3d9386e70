package rdma

import (
	"errors"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/work"
)

// rxeCard is a device of the kernel's Soft-RoCE.
type rxeCard struct{ *rxe.NIC }

func openRXE(key portKey) (card, error) {
	n, err := rxe.Config{Addr: key.addr, NetDev: key.netdev}.Open(key.device)
	if err != nil {
		return nil, err
	}
	return rxeCard{n}, nil
}

func (c rxeCard) newPair(sends, receives int) (queuePair, completions, error) {
	done, err := rxe.NewQueue(c.NIC, sends+receives)
	if err != nil {
		return nil, nil, err
	}
	q, err := rxe.NewPair(done, rxe.PairConfig{Sends: sends, Receives: receives})
	if err != nil {
		return nil, nil, errors.Join(err, done.Close())
	}
	return q, done, nil
}

func (c rxeCard) register(n int) (conn.Slab, error) {
	mr, err := rxe.Alloc(c.NIC, work.Local, n)
	if err != nil {
		return conn.Slab{}, err
	}
	s := mr.Local(0, n)
	return conn.Slab{Mem: mr.Bytes(), Addr: s.Addr, LKey: s.LKey, Free: func() { mr.Close() }}, nil
}
