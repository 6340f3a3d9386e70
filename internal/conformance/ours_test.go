package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/mlx5/srq"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// ours is the driver of this module, by its public packages.
type ours struct {
	soft    *softnic.NIC
	nic     *mlx5.NIC
	regions map[int]*region.Region
	queues  map[int]*cq.Queue
	events  map[int]chan struct{}
	pairs   map[int]*qp.Pair
	shared  map[int]*srq.Queue
	waiting []qp.Entry
}

func newOurs(soft *softnic.NIC) *ours {
	return &ours{soft: soft, regions: map[int]*region.Region{}, queues: map[int]*cq.Queue{},
		events: map[int]chan struct{}{}, pairs: map[int]*qp.Pair{}, shared: map[int]*srq.Queue{}}
}

// arguments are the numbers of a call, taken one by one.
type arguments struct{ rest []string }

func (a *arguments) next() int {
	v, err := strconv.ParseUint(a.rest[0], 0, 64)
	if err != nil {
		panic(err)
	}
	a.rest = a.rest[1:]
	return int(v)
}

func (o *ours) do(t *testing.T, call string) string {
	words := strings.Fields(call)
	a := &arguments{words[1:]}
	failed, err := o.call(t, words[0], a)
	require.NoError(t, err, call)
	require.Empty(t, a.rest, call)
	if failed > 0 {
		return fmt.Sprintf("%d failed", failed)
	}
	return ""
}

func (o *ours) call(t *testing.T, word string, a *arguments) (failed int, err error) {
	switch word {
	case "open":
		file, err := o.soft.Open()
		require.NoError(t, err)
		o.nic, err = mlx5.OpenFile(file, mlx5.Config{GIDs: func(uint8) ([]verbs.GIDEntry, error) { return o.soft.GIDs(), nil }})
		return 0, err
	case "port":
		_, err := o.nic.Port()
		return 0, err
	case "mr":
		return 0, o.register(a)
	case "cq":
		return 0, o.createQueue(a)
	case "qp":
		return 0, o.createPair(a)
	case "connect":
		return 0, o.connect(a)
	case "query":
		_, err := o.pairs[a.next()].State()
		return 0, err
	case "recv":
		return 0, o.receive(a, func(id int) receiver { return o.pairs[id] })
	case "srq":
		return 0, o.createShared(a)
	case "limit":
		return 0, o.shared[a.next()].SetLimit(a.next())
	case "sharingqp":
		return 0, o.createSharingPair(a)
	case "recvsrq":
		return 0, o.receive(a, func(id int) receiver { return o.shared[id] })
	case "destroysrq":
		return 0, o.shared[a.next()].Close()
	case "send":
		o.send(a)
		return 0, nil
	case "ring":
		return 0, o.ring(o.pairs[a.next()])
	case "poll":
		return poll(o.queues[a.next()], a.next())
	case "arm":
		return 0, o.queues[a.next()].Arm(a.next() != 0)
	case "event":
		select {
		case <-o.events[a.next()]:
		case <-time.After(bound):
			t.Fatal("no event")
		}
		return 0, nil
	case "fail":
		return 0, o.pairs[a.next()].Fail()
	case "destroyqp":
		return 0, o.pairs[a.next()].Destroy()
	case "destroycq":
		return 0, o.queues[a.next()].Close()
	case "deregmr":
		return 0, o.regions[a.next()].Close()
	case "close":
		return 0, o.nic.Close()
	}
	return 0, fmt.Errorf("call %q is unknown", word)
}

// accesses are the kernel's flags of our accesses: a region's, and a queue pair's.
var accesses = map[int]region.Access{
	regionLocal: region.Local, regionWrite: region.RemoteWrite, regionReadWrite: region.RemoteReadWrite,
	peerNothing: region.Local, peerWrite: region.RemoteWrite, peerReadWrite: region.RemoteReadWrite,
}

func (o *ours) register(a *arguments) (err error) {
	id, n, access := a.next(), a.next(), a.next()
	if o.regions[id], err = region.Alloc(o.nic, accesses[access], n); err != nil {
		return err
	}
	for i := range o.regions[id].Bytes() {
		o.regions[id].Bytes()[i] = byte(i % 251)
	}
	return nil
}

func (o *ours) createQueue(a *arguments) (err error) {
	id := a.next()
	if o.queues[id], err = cq.New(o.nic, a.next()); err != nil {
		return err
	}
	events := make(chan struct{}, 8)
	o.events[id] = events
	o.queues[id].Notify(func() { events <- struct{}{} })
	return nil
}

func (o *ours) createPair(a *arguments) (err error) {
	id, done := a.next(), o.queues[a.next()]
	c := qp.Config{ReceiveQueue: o.queues[a.next()], Sends: a.next(), Receives: a.next(),
		SendSegments: a.next(), ReceiveSegments: a.next(), Inline: a.next()}
	a.next() // how the library is asked
	o.pairs[id], err = qp.New(done, c)
	return err
}

func (o *ours) createShared(a *arguments) (err error) {
	id := a.next()
	o.shared[id], err = srq.New(o.nic, srq.Config{Receives: a.next(), Segments: a.next()})
	return err
}

func (o *ours) createSharingPair(a *arguments) (err error) {
	id, done := a.next(), o.queues[a.next()]
	c := qp.Config{ReceiveQueue: o.queues[a.next()], SRQ: o.shared[a.next()], Sends: a.next(), SendSegments: a.next(), Inline: a.next()}
	o.pairs[id], err = qp.New(done, c)
	return err
}

func (o *ours) connect(a *arguments) error {
	p, peer, access := o.pairs[a.next()], o.pairs[a.next()], a.next()
	a.rest = a.rest[4:] // what our driver chooses itself
	return p.Connect(accesses[access], peer.Endpoint())
}

// receiver is what receives are posted to.
type receiver interface {
	Receive(id uint64, into ...region.Segment) error
}

func (o *ours) receive(a *arguments, of func(id int) receiver) error {
	p, n := of(a.next()), a.next()
	into := o.list(a)
	for i := range n {
		if err := p.Receive(uint64(i), into...); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) list(a *arguments) (list []region.Segment) {
	for n := a.next(); n > 0; n-- {
		r, off, length := o.regions[a.next()], a.next(), a.next()
		list = append(list, r.Local(off, length))
	}
	return list
}

// operations are ours for those of libibverbs.
var operations = map[int]qp.Op{
	opWrite: qp.Write, opWriteImm: qp.WriteImm, opSend: qp.Send, opSendImm: qp.SendImm,
	opRead: qp.Read, opCompareSwap: qp.CompareSwap, opFetchAdd: qp.FetchAdd,
}

func (o *ours) send(a *arguments) {
	op, flags := operations[a.next()], a.next()
	e := qp.Entry{Op: op, ID: uint64(len(o.waiting)), Imm: uint32(a.next()),
		Signaled: flags&signaled != 0, Fence: flags&fence != 0, Solicited: flags&solicited != 0}
	remote := o.regions[a.next()]
	e.Remote = region.Target{Addr: remote.Local(a.next(), 0).Addr, RKey: remote.RKey()}
	compareAdd, swap := uint64(a.next()), uint64(a.next())
	e.Compare, e.Add, e.Swap = compareAdd, compareAdd, swap
	if flags&inline == 0 {
		e.Locals = o.list(a)
	} else {
		a.next() // one segment
		r, off, n := o.regions[a.next()], a.next(), a.next()
		e.Inline = r.Bytes()[off:][:n]
	}
	o.waiting = append(o.waiting, e)
}

func (o *ours) ring(p *qp.Pair) error {
	for _, e := range o.waiting {
		if err := p.Post(e); err != nil {
			return err
		}
	}
	o.waiting = nil
	p.Ring()
	return nil
}

// poll polls until there were n completions, and tells how many failed.
func poll(q *cq.Queue, n int) (failed int, err error) {
	for patience := time.Now().Add(bound); n > 0; {
		if time.Now().After(patience) {
			return failed, fmt.Errorf("%d completions are missing", n)
		}
		var polled [8]cq.Completion
		got, err := q.Poll(polled[:min(n, len(polled))])
		if err != nil {
			return failed, err
		}
		for _, c := range polled[:got] {
			if c.Status != verbs.Success {
				failed++
			}
		}
		n -= got
	}
	return failed, nil
}
