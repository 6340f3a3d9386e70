package rdma

import (
	"errors"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// pair is a queue pair with a completion queue of its own, as a Conn wants it.
type pair struct {
	*qp.Pair
	port *port
	done *cq.Queue
	got  [16]cq.Completion
}

var _ conn.Queue = (*pair)(nil)

func newPair(p *port, sends, receives int) (*pair, error) {
	done, err := cq.New(p.nic, ringSize(sends)+ringSize(receives))
	if err != nil {
		return nil, err
	}
	q, err := qp.New(done, qp.Config{Sends: sends, Receives: receives})
	if err != nil {
		return nil, errors.Join(err, done.Close())
	}
	made := &pair{Pair: q, port: p, done: done}
	p.watch(made)
	return made, nil
}

// ringSize is how many entries qp.New makes of n: at least 4, a power of two.
func ringSize(n int) int {
	size := 4
	for size < n {
		size *= 2
	}
	return size
}

// PostSend implements conn.Queue.
func (p *pair) PostSend(id uint64, b conn.Buffer, imm uint32) error {
	if err := p.Post(qp.Entry{Op: qp.SendImm, ID: id, Local: segment(b), Imm: imm, Signaled: true}); err != nil {
		return err
	}
	p.Ring()
	return nil
}

// PostReceive implements conn.Queue.
func (p *pair) PostReceive(id uint64, b conn.Buffer) error {
	return p.Receive(id, segment(b))
}

// Poll implements conn.Queue.
func (p *pair) Poll(c []conn.Completion) (int, error) {
	n, err := p.done.Poll(p.got[:min(len(p.got), len(c))])
	for i := range n {
		c[i] = completion(&p.got[i])
	}
	return n, err
}

func completion(d *cq.Completion) conn.Completion {
	return conn.Completion{
		ID:      d.ID,
		Receive: d.Ring == qp.Receives,
		Bytes:   d.Bytes,
		Imm:     d.Imm,
		HasImm:  d.HasImm,
		Err:     d.Err(),
		Flushed: d.Status == verbs.Flushed,
	}
}

// Arm implements conn.Queue.
func (p *pair) Arm() error { return p.done.Arm(false) }

// Notify implements conn.Queue.
func (p *pair) Notify(f func()) { p.done.Notify(f) }

// Close implements conn.Queue.
func (p *pair) Close() error {
	p.port.unwatch(p)
	return errors.Join(p.Destroy(), p.done.Close())
}

func segment(b conn.Buffer) region.Segment {
	return region.Segment{Addr: b.Addr, Length: uint32(len(b.Bytes)), LKey: b.LKey}
}
