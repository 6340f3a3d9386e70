package connectx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/prm"
)

// pair is a queue pair with a completion queue of its own, of 64 entries each.
type pair struct {
	g          *guest
	qpn, cqn   uint32
	pd         uint32
	cq, buffer uint64 // addresses
	record     uint64
	cqRecord   uint64
	produced   uint32
}

const (
	logEntries = 6
	entries    = 1 << logEntries
	stride     = 16
)

// setUp makes what queue pairs need: a doorbell page, a domain, an event queue.
func (g *guest) setUp() (pd, eq uint32, eqAddr uint64) {
	g.page = g.number(command(ifc.AllocUAR, 16))
	pd = g.number(command(ifc.AllocPD, 16))
	eq, eqAddr = g.createEQ(2, 0)
	g.armEQ(eq, 0)
	return pd, eq, eqAddr
}

// createCQ makes a completion queue.
func (g *guest) createCQ(eq uint32) (cqn uint32, addr, record uint64) {
	in := command(ifc.CreateCQ, ifc.Pages)
	record = g.alloc(8)
	c, q := in[ifc.Context:], &ifc.CompletionQueue
	q.LogSize.Put(c, logEntries)
	q.UAR.Put(c, uint64(g.page))
	q.EventQueue.Put(c, uint64(eq))
	q.Record.Put(c, record)
	in, addr = g.withPages(in, entries*prm.CQESize)
	for i := range uint64(entries) {
		require.NoError(g.t, g.mem.Write(addr+i*prm.CQESize+63, []byte{0xf1}))
	}
	return g.number(in), addr, record
}

// qpInput is a CREATE_QP of a reliable connection.
func (g *guest) qpInput(pd, cqn uint32, record uint64) []byte {
	in := command(ifc.CreateQP, ifc.Pages)
	c, q := in[ifc.QPContext:], &ifc.QueuePair
	q.PD.Put(c, uint64(pd))
	q.SendCQ.Put(c, uint64(cqn))
	q.ReceiveCQ.Put(c, uint64(cqn))
	q.UAR.Put(c, uint64(g.page))
	q.LogSends.Put(c, logEntries)
	q.LogReceives.Put(c, logEntries)
	q.UserIndex.Put(c, 77)
	q.Record.Put(c, record)
	return in
}

func (g *guest) createPair(pd, eq uint32) *pair {
	p := &pair{g: g, pd: pd}
	p.cqn, p.cq, p.cqRecord = g.createCQ(eq)
	p.record = g.alloc(8)
	in := g.qpInput(pd, p.cqn, p.record)
	in, p.buffer = g.withPages(in, entries*stride+entries*prm.Block)
	p.qpn = g.number(in)
	return p
}

// move carries out a command with a context.
func (p *pair) move(op ifc.Opcode, fill func(c, path []byte)) {
	in := command(op, ifc.Pages)
	ifc.Object.Put(in, uint64(p.qpn))
	c := in[ifc.QPContext:]
	fill(c, c[ifc.PrimaryPath:])
	p.g.do(in, 16)
}

func (p *pair) connect(peer *pair) {
	p.connectBy(peer, func(path []byte) { ifc.AddressPath.LID.Put(path, uint64(peer.g.nic.LID())) })
}

// connectBy is connect with a path that way fills in.
func (p *pair) connectBy(peer *pair, way func(path []byte)) {
	q, a := &ifc.QueuePair, &ifc.AddressPath
	p.move(ifc.ResetToInit, func(c, path []byte) {
		a.Port.Put(path, 1)
		q.RemoteWrite.Put(c, 1)
	})
	p.move(ifc.InitToRTR, func(c, path []byte) {
		q.MTU.Put(c, 3)
		q.RemoteQPN.Put(c, uint64(peer.qpn))
		q.ReceivePSN.Put(c, 100)
		a.Port.Put(path, 1)
		way(path)
	})
	p.move(ifc.RTRToRTS, func(c, path []byte) {
		q.SendPSN.Put(c, 100)
		q.Retries.Put(c, 7)
		a.AckTimeout.Put(path, 14)
	})
}

// post posts an entry of one block and rings.
func (p *pair) post(entry []byte) {
	g := p.g
	at := p.buffer + entries*stride + uint64(p.produced%entries)*prm.Block
	require.NoError(g.t, g.mem.Write(at, entry))
	p.produced++
	require.NoError(g.t, g.mem.Write(p.record+4, be.AppendUint32(nil, p.produced)))
	g.d.Write(0, uint64(g.page)*pageSize+prm.SendRegister, entry[:8])
}

// write is an RDMA WRITE of n bytes.
func (p *pair) write(from uint64, lkey uint32, to uint64, rkey uint32, n uint32) []byte {
	e := make([]byte, prm.Block)
	prm.PutCtrl(e, &prm.Ctrl{Opcode: prm.OpWrite, Index: uint16(p.produced), QPN: p.qpn, DS: 3, Flags: prm.CQEUpdate})
	prm.PutRemote(e[16:], to, rkey)
	prm.PutData(e[32:], prm.Segment{Addr: from, LKey: lkey, Length: n})
	return e
}

// completion waits for entry i of the completion queue: the engine may go on on its
// own goroutine.
func (p *pair) completion(i int) prm.CQE {
	e := make([]byte, prm.CQESize)
	require.Eventually(p.g.t, func() bool {
		require.NoError(p.g.t, p.g.mem.Read(p.cq+uint64(i)*prm.CQESize, e))
		return e[63]&1 == 0
	}, 10*time.Second, time.Millisecond)
	return e
}

// createKey makes a memory key for [addr, addr+n) of the guest's memory, under the
// address va.
func (g *guest) createKey(pd uint32, va uint64, addr uint64, n uint64) (key uint32) {
	in := command(ifc.CreateMKey, ifc.Pages)
	c, m := in[ifc.Context:], &ifc.MemoryKey
	m.PD.Put(c, uint64(pd))
	m.Mode.Put(c, modePages)
	m.LogPage.Put(c, 12)
	m.Start.Put(c, va)
	m.Length.Put(c, n)
	m.Variant.Put(c, 0x42)
	m.LocalWrite.Put(c, 1)
	m.RemoteWrite.Put(c, 1)
	for at := addr &^ (pageSize - 1); at < addr+n; at += pageSize {
		in = be.AppendUint64(in, at|3)
	}
	return g.number(in)<<8 | 0x42
}

func TestWrite(t *testing.T) {
	g := newGuest(t)
	pd, eq, eqAddr := g.setUp()
	a, b := g.createPair(pd, eq), g.createPair(pd, eq)
	a.connect(b)
	b.connect(a)

	// Across a page's end, from an address that has nothing to do with the memory's.
	memory := g.alloc(4 * pageSize)
	const va = 0x7fff_0000_0f00
	key := g.createKey(pd, va, memory+0xf00, 0x1000)
	require.NoError(t, g.mem.Write(memory+0xff0, []byte("across the end of a page")))

	// Armed, the completion raises an event, and that an interrupt.
	arm := be.AppendUint32(be.AppendUint32(nil, 1<<28), a.cqn)
	require.NoError(t, g.mem.Write(a.cqRecord+4, arm[:4]))
	g.d.Write(0, uint64(g.page)*pageSize+prm.ArmRegister, arm)
	a.post(a.write(va+0xf0, key, va+0x200, key, 24))
	c := a.completion(0)
	require.False(t, c.Opcode().IsError(), "syndrome %v", c.Syndrome())
	require.Equal(t, uint32(77), c.UserIndex())
	got := make([]byte, 24)
	require.NoError(t, g.mem.Read(memory+0xf00+0x200, got))
	require.Equal(t, "across the end of a page", string(got))
	require.Eventually(t, func() bool { return g.event(eqAddr, 0)[ifc.EventOwner] == 0 }, 10*time.Second, time.Millisecond)
	e := g.event(eqAddr, 0)
	require.Equal(t, byte(ifc.EventCompletion), e[ifc.EventType])
	require.Equal(t, a.cqn, be.Uint32(e[ifc.EventCQ:]))
	require.Equal(t, []int{2}, g.raised())

	state := g.do(about(ifc.QueryQP, a.qpn), ifc.Pages)[ifc.QPContext:]
	require.Equal(t, uint64(3), ifc.QueuePair.State.Get(state))
	require.Equal(t, uint64(b.qpn), ifc.QueuePair.RemoteQPN.Get(state))
	require.Equal(t, uint64(logEntries), ifc.QueuePair.LogSends.Get(state), "as it was made")

	// Behind the region's end.
	a.post(a.write(va, key, va+0xff0, key, 24))
	require.True(t, a.completion(1).Opcode().IsError())

	_, status := g.try(about(ifc.DestroyCQ, a.cqn), 16)
	require.Equal(t, ifc.ResourceBusy, status)
	for _, p := range []*pair{a, b} {
		g.do(about(ifc.ToReset, p.qpn), 16)
		g.do(about(ifc.DestroyQP, p.qpn), 16)
		g.do(about(ifc.DestroyCQ, p.cqn), 16)
	}
	g.do(about(ifc.DestroyMKey, key>>8), 16)
	g.do(about(ifc.DeallocPD, pd), 16)
	g.do(about(ifc.DeallocUAR, g.page), 16)
	g.do(about(ifc.DestroyEQ, eq), 16)
	require.Equal(t, int64(maxPages), g.d.budget, "all pages are given back")
}

// A machine of 32 bits rings in two halves.
func TestDoorbellInHalves(t *testing.T) {
	g := newGuest(t)
	pd, eq, _ := g.setUp()
	a, b := g.createPair(pd, eq), g.createPair(pd, eq)
	a.connect(b)
	b.connect(a)
	memory := g.alloc(pageSize)
	key := g.createKey(pd, memory, memory, pageSize)
	entry := a.write(memory, key, memory+64, key, 8)
	require.NoError(t, g.mem.Write(a.buffer+entries*stride, entry))
	require.NoError(t, g.mem.Write(a.record+4, be.AppendUint32(nil, 1)))
	at := uint64(g.page)*pageSize + prm.SendRegister
	g.d.Write(0, at, entry[:4])
	g.d.Write(0, at+4, entry[4:8])
	require.False(t, a.completion(0).Opcode().IsError())
}

// The kernel's key for everything: addresses are those of the guest's memory.
func TestPhysicalKey(t *testing.T) {
	g := newGuest(t)
	pd, eq, _ := g.setUp()
	a, b := g.createPair(pd, eq), g.createPair(pd, eq)
	a.connect(b)
	b.connect(a)
	in := command(ifc.CreateMKey, ifc.Pages)
	c, m := in[ifc.Context:], &ifc.MemoryKey
	m.PD.Put(c, uint64(pd))
	m.Length64.Put(c, 1)
	m.LocalWrite.Put(c, 1)
	m.RemoteWrite.Put(c, 1)
	key := g.number(in) << 8
	from, to := g.alloc(pageSize), g.alloc(pageSize)
	require.NoError(t, g.mem.Write(from, []byte("physical")))
	a.post(a.write(from, key, to, key, 8))
	require.False(t, a.completion(0).Opcode().IsError())
	got := make([]byte, 8)
	require.NoError(t, g.mem.Read(to, got))
	require.Equal(t, "physical", string(got))
	a.post(a.write(1<<40, key, to, key, 8))
	require.True(t, a.completion(1).Opcode().IsError(), "where no memory is")
}

func TestObjectsRefused(t *testing.T) {
	g := newGuest(t)
	pd, eq, _ := g.setUp()
	cqn, _, record := g.createCQ(eq)
	qp := func(change func(c []byte)) ifc.Status {
		in, _ := g.withPages(g.qpInput(pd, cqn, record), 2*pageSize)
		change(in[ifc.QPContext:])
		_, status := g.try(in, 16)
		return status
	}
	q := &ifc.QueuePair
	require.Equal(t, ifc.OK, qp(func([]byte) {}))
	require.Equal(t, ifc.BadParameter, qp(func(c []byte) { q.Service.Put(c, 3) }), "XRC")
	require.Equal(t, ifc.BadParameter, qp(func(c []byte) { q.ReceiveType.Put(c, 2) }))
	require.Equal(t, ifc.BadInputLength, qp(func(c []byte) { q.LogSends.Put(c, 10) }), "more pages than listed")
	require.Equal(t, ifc.BadResource, qp(func(c []byte) { q.PD.Put(c, 0) }))
	require.Equal(t, ifc.BadResource, qp(func(c []byte) { q.SendCQ.Put(c, 0) }))
	require.Equal(t, ifc.BadResource, qp(func(c []byte) { q.UAR.Put(c, 0) }))
	require.Equal(t, ifc.BadParameter, qp(func(c []byte) { q.Record.Put(c, 4) }), "record not aligned")

	key := func(change func(in []byte)) ifc.Status {
		in := command(ifc.CreateMKey, ifc.Pages)
		c, m := in[ifc.Context:], &ifc.MemoryKey
		m.PD.Put(c, uint64(pd))
		m.Mode.Put(c, modePages)
		m.LogPage.Put(c, 12)
		m.Length.Put(c, pageSize)
		in = be.AppendUint64(in, 0)
		change(in[ifc.Context:])
		_, status := g.try(in, 16)
		return status
	}
	m := &ifc.MemoryKey
	require.Equal(t, ifc.OK, key(func([]byte) {}))
	require.Equal(t, ifc.OK, key(func(c []byte) { m.Free.Put(c, 1) }))
	require.Equal(t, ifc.BadParameter, key(func(c []byte) { m.Mode.Put(c, 2) }))
	require.Equal(t, ifc.BadParameter, key(func(c []byte) { m.LogPage.Put(c, 11) }))
	require.Equal(t, ifc.BadInputLength, key(func(c []byte) { m.Start.Put(c, 1) }), "one page more than listed")
	require.Equal(t, ifc.BadParameter, key(func(c []byte) { m.Length.Put(c, 1<<64-1) }))
	require.Equal(t, ifc.BadParameter, key(func(c []byte) {
		m.Start.Put(c, 1<<64-pageSize)
		m.Length.Put(c, 2*pageSize)
		m.Mode.Put(c, modePhysical)
	}))
	g.d.budget = 0
	require.Equal(t, ifc.ExceedsLimit, key(func([]byte) {}))
}

// Queue pairs that the kernel makes for itself and that do nothing have states all
// the same.
func TestIdleQueuePair(t *testing.T) {
	g := newGuest(t)
	pd, eq, _ := g.setUp()
	cqn, _, record := g.createCQ(eq)
	in := g.qpInput(pd, cqn, record)
	ifc.QueuePair.Service.Put(in[ifc.QPContext:], 8)
	number := g.number(in)
	p := &pair{g: g, qpn: number}
	p.move(ifc.ResetToInit, func(_, _ []byte) {})
	state := g.do(about(ifc.QueryQP, number), ifc.Pages)[ifc.QPContext:]
	require.Equal(t, uint64(1), ifc.QueuePair.State.Get(state))
	g.do(about(ifc.DestroyQP, number), 16)
	_, status := g.try(about(ifc.QueryQP, number), ifc.Pages)
	require.Equal(t, ifc.BadResource, status)
}
