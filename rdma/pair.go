package rdma

import (
	"errors"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// pair is a queue pair with a completion queue of its own, as a Conn wants it.
type pair struct {
	queuePair
	port *port
	done completions

	got  [16]work.Completion
	into [1]work.Segment
}

var _ conn.Queue = (*pair)(nil)

func newPair(p *port, sends, receives int) (*pair, error) {
	q, done, err := p.nic.newPair(sends, receives)
	if err != nil {
		return nil, err
	}
	made := &pair{queuePair: q, port: p, done: done}
	p.watch(made)
	return made, nil
}

// PostSend implements conn.Queue.
func (p *pair) PostSend(id uint64, b conn.Buffer, imm uint32, more bool) error {
	err := p.Post(work.Entry{Op: work.SendImm, ID: id, Local: segment(b), Imm: imm, Signaled: true})
	if err != nil || more {
		return err
	}
	return p.Ring()
}

// PostReceive implements conn.Queue.
func (p *pair) PostReceive(id uint64, b conn.Buffer) error {
	p.into[0] = segment(b)
	return p.Receive(id, p.into[:]...)
}

// Poll implements conn.Queue.
func (p *pair) Poll(c []conn.Completion) (int, error) {
	n, err := p.done.Poll(p.got[:min(len(p.got), len(c))])
	for i := range n {
		c[i] = completion(&p.got[i])
	}
	return n, err
}

func completion(d *work.Completion) conn.Completion {
	return conn.Completion{
		ID:      d.ID,
		Receive: d.Ring == work.Receives,
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

func segment(b conn.Buffer) work.Segment {
	return work.Segment{Addr: b.Addr, Length: uint32(len(b.Bytes)), LKey: b.LKey}
}
