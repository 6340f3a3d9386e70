package connectx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
)

// Objects can be asked for what they were made with, until they are gone.
func TestQueries(t *testing.T) {
	g := newGuest(t)
	pd, eq, _ := g.setUp()
	cqn, _, record := g.createCQ(eq)
	key := command(ifc.CreateMKey, ifc.Pages)
	ifc.MemoryKey.PD.Put(key[ifc.Context:], uint64(pd))
	ifc.MemoryKey.Start.Put(key[ifc.Context:], 0x1234)
	ifc.MemoryKey.Length.Put(key[ifc.Context:], 0x1000)
	mkey := g.number(key)

	got := g.do(about(ifc.QueryCQ, cqn), ifc.Pages)[ifc.Context:]
	require.EqualValues(t, logEntries, ifc.CompletionQueue.LogSize.Get(got))
	require.EqualValues(t, eq, ifc.CompletionQueue.EventQueue.Get(got))
	require.Equal(t, record, ifc.CompletionQueue.Record.Get(got))
	got = g.do(about(ifc.QueryEQ, eq), ifc.Pages)[ifc.Context:]
	require.EqualValues(t, 6, ifc.EventQueue.LogSize.Get(got))
	require.EqualValues(t, 2, ifc.EventQueue.Vector.Get(got))
	got = g.do(about(ifc.QueryMKey, mkey), ifc.Pages)[ifc.Context:]
	require.EqualValues(t, 0x1234, ifc.MemoryKey.Start.Get(got))
	require.EqualValues(t, 0x1000, ifc.MemoryKey.Length.Get(got))

	for query, destroy := range map[ifc.Opcode][]byte{
		ifc.QueryCQ: about(ifc.DestroyCQ, cqn), ifc.QueryEQ: about(ifc.DestroyEQ, eq), ifc.QueryMKey: about(ifc.DestroyMKey, mkey),
	} {
		g.do(destroy, 16)
		_, status := g.try(about(query, uint32(ifc.Object.Get(destroy))), ifc.Pages)
		require.Equal(t, ifc.BadResource, status, "%#x", query)
	}
}

// Moderation is kept, and nothing else of a completion queue is changed.
func TestModeration(t *testing.T) {
	g := newGuest(t)
	_, eq, _ := g.setUp()
	cqn, _, _ := g.createCQ(eq)
	q := &ifc.CompletionQueue
	modify := func(selected uint64, change func(in []byte)) ifc.Status {
		in := command(ifc.ModifyCQ, ifc.Pages)
		ifc.Object.Put(in, uint64(cqn))
		ifc.ModifiedCQ.Select.Put(in, selected)
		q.Period.Put(in[ifc.Context:], 100)
		q.MaxCount.Put(in[ifc.Context:], 200)
		q.LogSize.Put(in[ifc.Context:], 1)
		change(in)
		_, status := g.try(in, 16)
		return status
	}
	same := func([]byte) {}
	for _, step := range []struct{ selected, period, count uint64 }{{0, 0, 0}, {1, 100, 0}, {2, 100, 200}} {
		require.Equal(t, ifc.OK, modify(step.selected, same))
		got := g.do(about(ifc.QueryCQ, cqn), ifc.Pages)[ifc.Context:]
		require.Equal(t, step.period, q.Period.Get(got))
		require.Equal(t, step.count, q.MaxCount.Get(got))
		require.EqualValues(t, logEntries, q.LogSize.Get(got))
	}
	zero := func(in []byte) { q.Period.Put(in[ifc.Context:], 0) }
	require.Equal(t, ifc.BadParameter, modify(1|1<<3, zero))
	require.Equal(t, ifc.BadParameter, modify(1, func(in []byte) { zero(in); ifc.Command.Modifier.Put(in, 1) }))
	require.Equal(t, ifc.BadResource, modify(1, func(in []byte) { zero(in); ifc.Object.Put(in, uint64(cqn)+1) }))
	got := g.do(about(ifc.QueryCQ, cqn), ifc.Pages)[ifc.Context:]
	require.EqualValues(t, 100, q.Period.Get(got), "what is refused changes nothing")
}

// The limit of a shared receive queue is armed, and asked for.
func TestReceivePoolLimit(t *testing.T) {
	g := newGuest(t)
	pd, _, _ := g.setUp()
	in := command(ifc.CreateRMP, ifc.Pages)
	w := in[ifc.RMPQueue:]
	ifc.WorkQueue.PD.Put(w, uint64(pd))
	ifc.WorkQueue.LogSize.Put(w, 4)
	ifc.WorkQueue.LogStride.Put(w, 5)
	ifc.WorkQueue.Record.Put(w, g.alloc(8))
	in, _ = g.withPages(in, 16<<5)
	number := g.number(in)
	query := func() uint64 {
		b := g.do(about(ifc.QueryRMP, number), ifc.Pages)
		require.EqualValues(t, poolReady, ifc.ReceivePool.State.Get(b[ifc.RMPContext:]))
		require.EqualValues(t, 4, ifc.WorkQueue.LogSize.Get(b[ifc.RMPQueue:]))
		return ifc.WorkQueue.LimitWatermark.Get(b[ifc.RMPQueue:])
	}
	arm := func(limit uint64, change bool) ifc.Status {
		in := command(ifc.ModifyRMP, ifc.Pages)
		ifc.Object.Put(in, uint64(number))
		ifc.WorkQueue.LimitWatermark.Put(in[ifc.RMPQueue:], limit)
		if change {
			ifc.ModifiedPool.Limit.Put(in, 1)
		}
		_, status := g.try(in, 16)
		return status
	}
	require.Zero(t, query())
	require.Equal(t, ifc.OK, arm(7, true))
	require.EqualValues(t, 7, query())
	require.Equal(t, ifc.OK, arm(3, false))
	require.EqualValues(t, 7, query(), "nothing was to change")
	require.Equal(t, ifc.BadParameter, arm(16, true), "more than it holds")
	require.EqualValues(t, 7, query())

	g.do(about(ifc.DestroyRMP, number), 16)
	require.Equal(t, ifc.BadResource, arm(1, true))
	_, status := g.try(about(ifc.QueryRMP, number), ifc.Pages)
	require.Equal(t, ifc.BadResource, status)
}
