package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
)

// operations are the rows of the comparison; libmlx5/cost.c has the same by the
// same names. The first is none: what it counts is what counting itself takes.
func (d *driver) operations() []operation {
	nothing := func(int) error { return nil }
	sent := func(calls int) error { return d.drain(d.sends, calls) }
	return []operation{
		{empty, 1, 64, nothing, func() {}, nothing},
		{"post", 1, 64, nothing, d.post(d.sendEntry()), sent},
		{"post" + other, 1, 64, nothing, d.submit(d.sendEntry()), sent},
		{"post-32", batch, 4, nothing, d.post(d.writes()...), sent},
		{"post-32" + other, batch, 4, nothing, d.submit(d.writes()...), sent},
		{"post-inline", 1, 64, nothing, d.post(d.inlineEntry()), sent},
		{"post-inline" + other, 1, 64, nothing, d.submit(d.inlineEntry()), sent},
		{"receive", 1, 64, nothing, d.postReceives(1), d.received},
		{"receive" + other, 1, 64, nothing, d.receiveAll(1), d.received},
		{"receive-32", batch, 4, nothing, d.postReceives(batch), d.receivedBatch},
		{"receive-32" + other, batch, 4, nothing, d.receiveAll(batch), d.receivedBatch},
		{"poll-send", 1, 64, d.completeSends(1), d.poll(d.sends, 1), d.polledSends(1)},
		{"poll-send-16", polled, 8, d.completeSends(polled), d.poll(d.sends, polled), d.polledSends(polled)},
		{"poll-receive", 1, 64, d.completeReceives(1), d.poll(d.receives, 1), d.polledReceives(1)},
		{"poll-receive-16", polled, 8, d.completeReceives(polled), d.poll(d.receives, polled), d.polledReceives(polled)},
	}
}

// empty is the name of the operation that does nothing.
const empty = "empty"

func (d *driver) sendEntry() qp.Entry {
	return qp.Entry{Op: qp.Send, Local: d.mr.Local(0, message), Signaled: true}
}

func (d *driver) inlineEntry() qp.Entry {
	return qp.Entry{Op: qp.Send, Inline: d.mr.Bytes()[:message], Signaled: true}
}

// writes are WRITEs, the last of them signaled.
func (d *driver) writes() []qp.Entry {
	target, _ := d.mr.Remote(0)
	w := slices.Repeat([]qp.Entry{{Op: qp.Write, Local: d.mr.Local(0, message), Remote: target}}, batch)
	w[batch-1].Signaled = true
	return w
}

// post posts entries one by one, and rings once. It and submit are not inlined, since in a
// function within one that is, the compiler inlines no calls, as it does elsewhere.
//
//go:noinline
func (d *driver) post(entries ...qp.Entry) func() {
	return func() {
		for i := range entries {
			if err := d.pair.Post(entries[i]); err != nil {
				d.failed = err
			}
		}
		d.pair.Ring()
	}
}

//go:noinline
func (d *driver) submit(entries ...qp.Entry) func() {
	return func() {
		if _, err := d.pair.Submit(entries); err != nil {
			d.failed = err
		}
	}
}

func (d *driver) receiveAll(n int) func() {
	buffers := slices.Repeat([]qp.Buffer{{ID: 1, Into: d.mr.Local(0, message)}}, n)
	return func() {
		if _, err := d.pair.ReceiveAll(buffers); err != nil {
			d.failed = err
		}
	}
}

func (d *driver) postReceives(n int) func() {
	into := d.mr.Local(0, message)
	return func() {
		for range n {
			if err := d.pair.Receive(1, into); err != nil {
				d.failed = err
			}
		}
	}
}

// received has the receives that calls have posted filled.
func (d *driver) received(calls int) error {
	return errors.Join(d.send(calls, true), d.drain(d.sends, calls), d.drain(d.receives, calls))
}

func (d *driver) receivedBatch(calls int) error { return d.received(calls * batch) }

// completeSends has completions of sends ready for calls of n each.
func (d *driver) completeSends(n int) func(calls int) error {
	return func(calls int) error { return errors.Join(d.send(calls*n, true), d.settle()) }
}

func (d *driver) completeReceives(n int) func(calls int) error {
	return func(calls int) error {
		return errors.Join(d.receive(calls*n), d.send(calls*n, true), d.drain(d.sends, calls*n))
	}
}

// poll takes n completions.
func (d *driver) poll(q *cq.Queue, n int) func() {
	c := d.completions[:n]
	return func() {
		if got, err := q.Poll(c); err != nil || got != n {
			d.failed = fmt.Errorf("%d completions, want %d: %w", got, n, err)
		}
	}
}

func (d *driver) polledSends(n int) func(calls int) error {
	return func(int) error { return errors.Join(d.succeeded(n), d.drain(d.sends, 0)) }
}

func (d *driver) polledReceives(n int) func(calls int) error {
	return func(int) error { return errors.Join(d.succeeded(n), d.drain(d.receives, 0)) }
}
