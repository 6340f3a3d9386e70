package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlowRefuses is what a hostile peer may try.
func TestFlowRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*flow)
		n      int
		imm    uint32
	}{
		"reserved bits":            {nil, 1, 1 << 24},
		"grant of nothing":         {func(f *flow) { f.widest = f.window }, 0, 1},
		"grant below zero":         {nil, 0, 0xffff},
		"grant of half a turn":     {nil, 0, 0x8000},
		"grant beyond what is out": {func(f *flow) { f.sendData(false); f.sendData(false) }, 0, 4},
		"grant beyond the widest":  {nil, 0, 2},
		"control never sent":       {nil, 0, 1 << 16},
		"fin twice":                {func(f *flow) { f.finSeen = true }, 0, immFIN},
		"stop twice":               {func(f *flow) { f.stopSeen = true }, 0, immSTOP},
		"data after fin":           {func(f *flow) { f.finSeen = true }, 1, 0},
		"data without credit":      {func(f *flow) { f.arrived = 2 }, 1, 0},
		"control flood":            {func(f *flow) { f.ctlSeen = Reserve }, 0, 0},
		"probe with payload":       {nil, 1, immPROBE},
		"probe after fin":          {func(f *flow) { f.finSeen = true }, 0, immPROBE},
		"probe without credit":     {func(f *flow) { f.arrived = 2 }, 0, immPROBE},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow([2]int{Reserve + 2, Reserve + 2}, [2]int{Reserve + 2, Reserve + 3})
			if c.before != nil {
				c.before(&f)
			}
			was := f
			var protocol *ProtocolError
			require.ErrorAs(t, f.receive(c.n, c.imm), &protocol)
			require.NotEmpty(t, protocol.Error())
			require.Equal(t, was, f, "a refused message must not count")
		})
	}
}

// TestFlowStopAfterFIN: who has said all needs no STOP.
func TestFlowStopAfterFIN(t *testing.T) {
	f := newFlow([2]int{Reserve + 2, Reserve + 2}, [2]int{Reserve + 2, Reserve + 2})
	f.stopWanted = true
	require.True(t, f.controlDue(false))
	require.NoError(t, f.receive(0, immFIN))
	require.False(t, f.controlDue(false))
}

// FuzzFlow receives anything at all: the counts never get out of bounds.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1}, uint8(3))
	f.Add([]byte{0x80, 0, 0, 0, 0, 0x40, 0, 0, 1, 1}, uint8(0))
	f.Add([]byte{0, 0, 0, 10, 8, 0, 0, 0, 0, 5, 0, 0, 0, 0, 6}, uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, sent uint8) {
		fl := newFlow([2]int{Reserve + 4, Reserve + 6}, [2]int{Reserve + 300, Reserve + 310})
		for range sent {
			fl.sendData(false)
		}
		for ; len(in) >= 5; in = in[5:] {
			imm := uint32(in[0])<<24 | uint32(in[1])<<16 | uint32(in[2])<<8 | uint32(in[3])
			err := fl.receive(int(in[4]%2), imm)
			require.LessOrEqual(t, fl.credits(), fl.widest)
			require.LessOrEqual(t, fl.unaccounted(), int(sent))
			require.GreaterOrEqual(t, fl.room(), 0)
			require.LessOrEqual(t, fl.room(), fl.own)
			if err != nil {
				return
			}
			if in[4]&2 != 0 && fl.room() < fl.own && (in[4]&4 == 0 || !fl.shrink()) {
				fl.free()
			}
			if in[4]&8 != 0 && fl.mayGrow(1) {
				fl.grow(1)
			}
		}
	})
}
