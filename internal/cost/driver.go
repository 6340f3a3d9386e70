package main

import (
	"errors"
	"fmt"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// Sizes of the rings, as in libmlx5/cost.c.
const (
	ringEntries = 256
	batch       = 32
	polled      = 16
	message     = 64
)

// driver is this module's driver on a queue pair that is its own peer.
type driver struct {
	nic             *mlx5.NIC
	sends, receives *cq.Queue
	pair            *qp.Pair
	mr              *region.Region

	completions [ringEntries]cq.Completion
	failed      error // of the calls that are measured
}

func newDriver() (d *driver, err error) {
	d = &driver{}
	if d.nic, err = mlx5.Open("mlx5_0"); err != nil {
		return nil, err
	}
	if d.sends, err = cq.New(d.nic, ringEntries); err != nil {
		return nil, err
	}
	if d.receives, err = cq.New(d.nic, ringEntries); err != nil {
		return nil, err
	}
	if d.mr, err = region.Alloc(d.nic, region.RemoteReadWrite, 4096); err != nil {
		return nil, err
	}
	config := qp.Config{Sends: ringEntries, Receives: ringEntries, Inline: message, ReceiveQueue: d.receives}
	if d.pair, err = qp.New(d.sends, config); err != nil {
		return nil, err
	}
	return d, d.pair.Connect(region.RemoteReadWrite, d.pair.Endpoint())
}

func (d *driver) close() error {
	return errors.Join(d.pair.Destroy(), d.mr.Close(), d.receives.Close(), d.sends.Close(), d.nic.Close())
}

// settle waits until the NIC has done what was posted: a command comes after it.
func (d *driver) settle() error {
	_, err := d.pair.State()
	return errors.Join(d.failed, err)
}

// drain takes n completions, which must be there.
func (d *driver) drain(q *cq.Queue, n int) error {
	if err := d.settle(); err != nil {
		return err
	}
	got, err := q.Poll(d.completions[:])
	if err == nil && got != n {
		err = fmt.Errorf("%d completions, want %d", got, n)
	}
	return errors.Join(err, d.succeeded(got))
}

func (d *driver) succeeded(n int) error {
	for i := range d.completions[:n] {
		if err := d.completions[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

// send posts n messages and rings.
func (d *driver) send(n int, signaled bool) error {
	e := qp.Entry{Op: qp.Send, Local: d.mr.Local(0, message), Signaled: signaled}
	for range n {
		if err := d.pair.Post(e); err != nil {
			return err
		}
	}
	d.pair.Ring()
	return nil
}

func (d *driver) receive(n int) error {
	for range n {
		if err := d.pair.Receive(1, d.mr.Local(0, message)); err != nil {
			return err
		}
	}
	return nil
}
