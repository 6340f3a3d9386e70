package rdma

import (
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// watch makes a fatal event of the queue pair end its connection.
func (p *port) watch(q *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pairs[q.Number()] = q
}

func (p *port) unwatch(q *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, q.Number())
}

// heard is called by the NIC with each asynchronous event. A queue pair that is not to go
// on is moved to error, in case the NIC has not done so: then all that is posted on it is
// flushed, and nobody waits in vain. That asks the kernel, so it has a goroutine.
func (p *port) heard(e nic.Event) {
	if e.Type.IsPort() || e.Type == verbs.EventDeviceFatal {
		p.owner.finder.known.forget()
	}
	switch e.Type {
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError:
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.pairs[e.QPN]; q != nil {
		p.failing.Go(func() { q.Fail() })
	}
}
