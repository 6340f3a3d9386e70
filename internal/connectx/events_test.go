package connectx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
)

// The end of a command is announced once there is a queue for that, and not the end
// of the one that makes it.
func TestCommandEvents(t *testing.T) {
	g := newGuest(t)
	g.page = 8
	number, addr := g.createEQ(5, 1<<ifc.EventCommand)
	require.Equal(t, byte(1), g.event(addr, 0)[ifc.EventOwner], "none yet")
	g.do(command(ifc.NOP, 16), 16)
	e := g.event(addr, 0)
	require.Equal(t, byte(ifc.EventCommand), e[ifc.EventType])
	require.Equal(t, uint32(1), be.Uint32(e[ifc.EventCommands:]))
	require.Zero(t, e[ifc.EventOwner])
	require.Empty(t, g.raised(), "not armed")

	g.armEQ(number, 0)
	require.Equal(t, []int{5}, g.raised(), "there is one that the driver has not seen")
	g.armEQ(number, 1)
	require.Empty(t, g.raised())
	g.do(command(ifc.NOP, 16), 16)
	require.Equal(t, []int{5}, g.raised())
	g.do(command(ifc.NOP, 16), 16)
	require.Empty(t, g.raised(), "armed for one")
	g.do(about(ifc.DestroyEQ, number), 16)
	g.do(command(ifc.NOP, 16), 16)
	require.Equal(t, byte(1), g.event(addr, 3)[ifc.EventOwner])
}

// The owner bit changes with every round, and a full queue is not written to.
func TestEventQueueWrapsAndFills(t *testing.T) {
	g := newGuest(t)
	number, addr := g.createEQ(0, 1<<ifc.EventCommand)
	for range eqEntries + 3 {
		g.do(command(ifc.NOP, 16), 16)
	}
	require.Zero(t, g.event(addr, 0)[ifc.EventOwner], "the first round's")
	g.write(uint64(8)*pageSize+eqUpdate, number<<24|2)
	g.do(command(ifc.NOP, 16), 16)
	require.Equal(t, byte(1), g.event(addr, 0)[ifc.EventOwner], "the second round's")
	require.Zero(t, g.event(addr, 1)[ifc.EventOwner])
}

func TestEventQueueRefused(t *testing.T) {
	g := newGuest(t)
	make := func(change func(in []byte)) ifc.Status {
		in := command(ifc.CreateEQ, ifc.Pages)
		ifc.EventQueue.LogSize.Put(in[ifc.Context:], 6)
		in = be.AppendUint64(in, 0x300000)
		change(in)
		_, status := g.try(in, 16)
		return status
	}
	require.Equal(t, ifc.OK, make(func([]byte) {}))
	require.Equal(t, ifc.BadSize, make(func(in []byte) { ifc.EventQueue.LogSize.Put(in[ifc.Context:], 17) }))
	require.Equal(t, ifc.BadInputLength, make(func(in []byte) { ifc.EventQueue.LogSize.Put(in[ifc.Context:], 7) }), "more pages than listed")
	require.Equal(t, ifc.BadParameter, make(func(in []byte) { ifc.EventQueue.Vector.Put(in[ifc.Context:], Vectors) }))
	for range maxEQs - 2 {
		require.Equal(t, ifc.OK, make(func([]byte) {}))
	}
	require.Equal(t, ifc.ExceedsLimit, make(func([]byte) {}))
	g.armEQ(0, 0)
	g.armEQ(255, 0)
}
