package softnic

import (
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// CQConfig is a completion queue wanted.
type CQConfig struct {
	Memory         Memory
	Buffer, Record uint64 // addresses in Memory
	Entries        uint32 // a power of two
	EntrySize      uint32 // 64 or 128 bytes
	IgnoreOverrun  bool
	Page           uint32           // doorbell page it is armed at
	Completed      func(cqn uint32) // called for each event it is armed for
}

// CreateCQ makes a completion queue and returns its number. Where its sequence of
// arms begins the first arm says.
func (p *Function) CreateCQ(c CQConfig) (number uint32, err error) {
	err = p.do(func(n *NIC) error {
		page, err := find[*uar](p, p.pages, c.Page)
		switch {
		case err != nil:
			return err
		case n.count.CQs >= n.lim.CQs:
			return refuse(enomem, "%d completion queues", n.count.CQs)
		case bits.OnesCount32(c.Entries) != 1 || c.Entries > uint32(n.lim.CQEntries):
			return refuse(einval, "%d entries, limit %d", c.Entries, n.lim.CQEntries)
		case c.EntrySize != prm.CQESize && c.EntrySize != 2*prm.CQESize:
			return refuse(einval, "entries of %d bytes", c.EntrySize)
		case c.Record%prm.RecordSize != 0:
			return refuse(einval, "doorbell record at %#x", c.Record)
		}
		q := &cq{mem: c.Memory, origin: p.f.origin(), uar: page, buf: c.Buffer, record: c.Record, entries: c.Entries,
			entrySize: c.EntrySize, ignore: c.IgnoreOverrun, async: p.async, unheard: true}
		n.addCQ(q)
		number, q.user = q.cqn, uint64(q.cqn)
		q.channel = p.events(completionRecord, func([]byte) { c.Completed(q.cqn) })
		p.cqs[number] = p.f.objects.add(uapi.ObjectCQ, q)
		return nil
	})
	return number, err
}

// DestroyCQ destroys a completion queue that no queue pair uses.
func (p *Function) DestroyCQ(number uint32) error {
	return destroy(p, p.cqs, number, func(c *cq) int { return c.users })
}

// SRQConfig is a shared receive queue wanted.
type SRQConfig struct {
	PD             uint32
	Memory         Memory
	Buffer, Record uint64 // addresses in Memory
	Entries        uint32 // a power of two
	Stride         uint32 // bytes of an entry, a power of two
}

// CreateSRQ makes a shared receive queue and returns its number.
func (p *Function) CreateSRQ(c SRQConfig) (number uint32, err error) {
	err = p.do(func(n *NIC) error {
		d, err := find[*pd](p, p.pds, c.PD)
		switch {
		case err != nil:
			return err
		case n.count.SRQs >= n.lim.SRQs:
			return refuse(enomem, "%d shared receive queues", n.count.SRQs)
		case bits.OnesCount32(c.Entries) != 1 || c.Entries > uint32(n.lim.QPEntries):
			return refuse(einval, "%d receives, limit %d", c.Entries, n.lim.QPEntries)
		case bits.OnesCount32(c.Stride) != 1 || c.Stride < 2*prm.Unit || c.Stride > maxReceiveEntry:
			return refuse(einval, "entries of %d bytes", c.Stride)
		case c.Record%prm.RecordSize != 0:
			return refuse(einval, "doorbell record at %#x", c.Record)
		}
		s := &srq{mem: c.Memory, origin: p.f.origin(), pd: d, async: p.async, buf: c.Buffer, record: c.Record,
			entries: c.Entries, stride: c.Stride, segments: c.Stride/prm.Unit - 1}
		n.addSRQ(s)
		number, s.user = s.srqn, uint64(s.srqn)
		p.srqs[number] = p.f.objects.add(uapi.ObjectSRQ, s)
		return nil
	})
	return number, err
}

// DestroySRQ destroys a shared receive queue that no queue pair uses.
func (p *Function) DestroySRQ(number uint32) error {
	return destroy(p, p.srqs, number, func(s *srq) int { return s.users })
}

// LimitSRQ asks for one SRQ_LIMIT_REACHED event, for when fewer receives than limit are left
// on a shared receive queue; 0 asks for none.
func (p *Function) LimitSRQ(number, limit uint32) error {
	return p.do(func(*NIC) error {
		s, err := find[*srq](p, p.srqs, number)
		if err != nil {
			return err
		}
		return s.arm(limit)
	})
}

// SRQLimit is the limit that is asked for and not reached yet, 0 if there is none.
func (p *Function) SRQLimit(number uint32) (limit uint32, err error) {
	err = p.do(func(*NIC) error {
		s, err := find[*srq](p, p.srqs, number)
		if err == nil {
			limit = s.limit
		}
		return err
	})
	return limit, err
}

// QPConfig is a queue pair wanted. Its buffer has the receive queue first and the
// send queue behind it.
type QPConfig struct {
	Kind           uint8 // as the kernel's uverbs interface has it: IB_QPT_RC, UC or UD
	PD             uint32
	SendCQ, RecvCQ uint32
	SRQ            uint32 // 0: receives of its own
	Memory         Memory
	Buffer, Record uint64 // addresses in Memory
	SendBlocks     uint32 // of 64 bytes; a power of two, or 0
	Receives       uint32 // a power of two, or 0
	Stride         uint32 // of a receive, in bytes
	Page           uint32 // doorbell page it is rung at
	UserIndex      uint32 // that its completions carry

	ScatterSends, ScatterReceives bool // short messages go into completions
}

// SinkConfig is a send queue of an Ethernet port wanted: its entries complete, if they
// ask for it, and what they would send goes nowhere. Its number is one of a queue pair.
type SinkConfig struct {
	PD, CQ         uint32
	Memory         Memory
	Buffer, Record uint64 // addresses in Memory
	Blocks         uint32 // of 64 bytes; a power of two
	Page           uint32 // doorbell page it is rung at
	UserIndex      uint32 // that its completions carry
}

// CreateSink makes such a queue, in the state RESET, and returns its number.
func (p *Function) CreateSink(c SinkConfig) (number uint32, err error) {
	return p.createQP(QPConfig{Kind: uapi.QPTypeUD, PD: c.PD, SendCQ: c.CQ, RecvCQ: c.CQ, Memory: c.Memory, Buffer: c.Buffer, Record: c.Record,
		SendBlocks: c.Blocks, Page: c.Page, UserIndex: c.UserIndex}, true)
}

// RunSink has the queue's entries taken, or resets it.
func (p *Function) RunSink(number uint32, run bool) error {
	return p.do(func(*NIC) error {
		q, err := find[*qp](p, p.qps, number)
		switch {
		case err != nil:
			return err
		case !q.sink:
			return refuse(enoent, "queue %#x is not a send queue", number)
		case !run:
			q.reset()
		case q.state == uapi.QPReset:
			q.state = uapi.QPRTS
			q.ring()
			q.nic.pending.Store(true)
		}
		return nil
	})
}

// CreateQP makes a queue pair, in the state RESET, and returns its number.
func (p *Function) CreateQP(c QPConfig) (number uint32, err error) { return p.createQP(c, false) }

func (p *Function) createQP(c QPConfig, sink bool) (number uint32, err error) {
	err = p.do(func(n *NIC) error {
		q, err := p.newQP(c)
		if err != nil {
			return err
		}
		q.sink = sink
		n.addQP(q)
		number, q.user = q.qpn, uint64(q.qpn)
		p.qps[number] = p.f.objects.add(uapi.ObjectQP, q)
		return nil
	})
	return number, err
}

// newQP judges what is wanted and finds the objects it names.
func (p *Function) newQP(c QPConfig) (*qp, error) {
	n := p.f.nic
	powerOrNone := func(v uint32) bool { return v&(v-1) == 0 && v <= uint32(n.lim.QPEntries) }
	switch {
	case checkType(uint64(c.Kind)) != nil:
		return nil, checkType(uint64(c.Kind))
	case n.count.QPs >= n.lim.QPs:
		return nil, refuse(enomem, "%d queue pairs", n.count.QPs)
	case !powerOrNone(c.SendBlocks) || !powerOrNone(c.Receives):
		return nil, refuse(einval, "%d send blocks, %d receives, limit %d", c.SendBlocks, c.Receives, n.lim.QPEntries)
	case c.Receives > 0 && (bits.OnesCount32(c.Stride) != 1 || c.Stride < prm.Unit || c.Stride > maxReceiveEntry):
		return nil, refuse(einval, "receives of %d bytes", c.Stride)
	case c.Receives > 0 && c.SRQ != 0:
		return nil, refuse(einval, "receives of its own and shared ones")
	case c.Record%prm.RecordSize != 0:
		return nil, refuse(einval, "doorbell record at %#x", c.Record)
	}
	q := &qp{
		mem: c.Memory, origin: p.f.origin(), kind: c.Kind, async: p.async, buf: c.Buffer, record: c.Record,
		sendBlocks: c.SendBlocks, userIndex: c.UserIndex, receiveIndex: c.UserIndex,
	}
	if c.Receives > 0 {
		q.receives, q.stride = c.Receives, c.Stride
	}
	q.sendBuf = q.buf + uint64(q.receives)*uint64(q.stride)
	var err error
	if q.pd, err = find[*pd](p, p.pds, c.PD); err != nil {
		return nil, err
	}
	if q.sendCQ, err = find[*cq](p, p.cqs, c.SendCQ); err != nil {
		return nil, err
	}
	if q.recvCQ, err = find[*cq](p, p.cqs, c.RecvCQ); err != nil {
		return nil, err
	}
	if q.uar, err = find[*uar](p, p.pages, c.Page); err != nil {
		return nil, err
	}
	if c.SRQ != 0 {
		if q.srq, err = find[*srq](p, p.srqs, c.SRQ); err != nil {
			return nil, err
		}
	}
	q.scatter(c)
	return q, nil
}

// scatter has short messages go into completions.
func (q *qp) scatter(c QPConfig) {
	switch {
	case c.ScatterReceives && c.ScatterSends:
		q.setInline(prm.QPScatterCQE | prm.QPAllowScatterCQE)
	case c.ScatterReceives:
		q.setInline(prm.QPScatterCQE)
	}
}

// DestroyQP destroys a queue pair.
func (p *Function) DestroyQP(number uint32) error { return destroy(p, p.qps, number, nobody[*qp]) }

// ModifyQP changes a queue pair as the kernel's uverbs command of this name does.
func (p *Function) ModifyQP(number uint32, change *uapi.ModifyQP) error {
	return p.do(func(*NIC) error {
		q, err := find[*qp](p, p.qps, number)
		switch {
		case err != nil:
			return err
		case q.sink:
			return refuse(enoent, "queue %#x is not a queue pair", number)
		}
		return q.modify(change)
	})
}

// QueryQP is what a queue pair has become.
func (p *Function) QueryQP(number uint32) (a uapi.QueryQPResp, err error) {
	err = p.do(func(*NIC) error {
		q, err := find[*qp](p, p.qps, number)
		if err == nil {
			a = q.query()
		}
		return err
	})
	return a, err
}
