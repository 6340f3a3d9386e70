package conn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// end is one side of the model: its credits, the state of its application, and the
// messages on their way to it.
type end struct {
	flow     flow
	toWrite  int // messages the application still wants to write
	unread   int // messages arrived and not read
	receives int // posted
	wire     [7]message
	onWire   int
	reader   bool // the application reads what comes
}

type message struct {
	n   uint8
	imm uint32
}

// world is both sides. It is comparable: states that are equal are explored once.
type world [2]end

// steps returns the worlds that one event can lead to.
func (w world) steps(t *testing.T) []world {
	var next []world
	for i := range w {
		step := func(change func(me, peer *end)) {
			n := w
			change(&n[i], &n[1-i])
			next = append(next, n)
		}
		me := &w[i]
		if me.toWrite > 0 && me.flow.credits() > 0 && w[1-i].onWire < len(me.wire) {
			step(func(me, peer *end) {
				me.toWrite--
				peer.send(1, me.flow.sendData(me.toWrite == 0))
			})
		}
		if me.flow.controlDue(me.toWrite > 0 && !me.flow.stopSeen) {
			if !me.flow.controlAllowed() {
				require.Fail(t, "a control message must wait for the peer", "%+v", w)
			}
			if w[1-i].onWire < len(me.wire) {
				step(func(me, peer *end) { peer.send(0, me.flow.sendControl(me.toWrite > 0 && !me.flow.stopSeen)) })
			}
		}
		if me.onWire > 0 {
			step(func(me, _ *end) { me.arrive(t) })
		}
		if me.unread > 0 && me.reader {
			step(func(me, _ *end) { me.unread--; me.receives++; me.flow.free() })
		}
		if me.reader && !me.flow.stopWanted && me.flow.stopAllowedInModel() {
			step(func(me, _ *end) { // CloseRead
				me.flow.stopWanted = true
				for ; me.unread > 0; me.unread-- {
					me.receives++
					me.flow.free()
				}
			})
		}
	}
	return next
}

// modelStops switches STOP on in the model.
var modelStops bool

func (f *flow) stopAllowedInModel() bool { return modelStops }

func (e *end) send(n uint8, imm uint32) {
	e.wire[e.onWire] = message{n, imm}
	e.onWire++
}

func (e *end) arrive(t *testing.T) {
	m := e.wire[0]
	copy(e.wire[:], e.wire[1:])
	e.wire[len(e.wire)-1] = message{}
	e.onWire--
	require.Positive(t, e.receives, "receiver not ready")
	e.receives--
	require.NoError(t, e.flow.receive(int(m.n), m.imm))
	switch {
	case m.n == 0:
		e.receives++
	case e.flow.stopWanted:
		e.receives++
		e.flow.free()
	default:
		e.unread++
	}
}

// settled reports whether all is said and done.
func (e *end) settled() bool {
	return (e.toWrite == 0 || e.flow.stopSeen) && e.flow.finSent && e.flow.finSeen && (e.unread == 0 || !e.reader)
}

// TestFlowExplored goes through every order of writing, delivering, reading and stopping for
// small windows. There is always a receive for a message, a control message never
// waits for the peer, and whatever has happened, everything is delivered in the end.
func TestFlowExplored(t *testing.T) {
	for _, r := range [][2]int{{4, 4}, {4, 5}, {5, 5}, {6, 4}, {6, 6}, {7, 5}} {
		for _, stops := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d-%d-stops=%v", r[0], r[1], stops), func(t *testing.T) {
				modelStops = stops
				messages := 6
				if stops || raceEnabled {
					messages = 3
				}
				for _, n := range [][2]int{{messages, messages}, {messages + 2, 0}, {1, messages}} {
					var w world
					for i := range w {
						w[i] = end{flow: newFlow(r[i], r[1-i]), toWrite: n[i], receives: r[i], reader: true}
						w[i].flow.finWanted = true
					}
					explore(t, w)
				}
			})
		}
	}
}

func explore(t *testing.T, start world) {
	seen := map[world]bool{start: true}
	todo := []world{start}
	ends := 0
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next := w.steps(t)
		if len(next) == 0 || onlyStops(w) {
			require.True(t, w[0].settled() && w[1].settled(), "locked up: %+v", w)
			ends++
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
		require.Less(t, len(seen), 3_000_000)
	}
	require.Positive(t, ends)
	t.Logf("%d states, %d ends", len(seen), ends)
}

// onlyStops reports whether nothing can happen any more but for someone to stop reading.
func onlyStops(w world) bool {
	for i := range w {
		e := &w[i]
		left := e.toWrite > 0 && !e.flow.stopSeen
		if e.onWire > 0 || e.unread > 0 || e.toWrite > 0 && e.flow.credits() > 0 || e.flow.controlDue(left) {
			return false
		}
	}
	return true
}

// TestFlowRefuses is what a hostile peer may try.
func TestFlowRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*flow)
		n      int
		imm    uint32
	}{
		"reserved bits":            {nil, 1, 1 << 24},
		"grant of nothing":         {nil, 0, 1},
		"grant below zero":         {nil, 0, 0xffff},
		"grant beyond what is out": {func(f *flow) { f.sendData(false); f.sendData(false) }, 0, 3},
		"control never sent":       {nil, 0, 1 << 16},
		"fin twice":                {func(f *flow) { f.finSeen = true }, 0, immFIN},
		"stop twice":               {func(f *flow) { f.stopSeen = true }, 0, immSTOP},
		"data after fin":           {func(f *flow) { f.finSeen = true }, 1, 0},
		"data without credit":      {func(f *flow) { f.arrived = 2 }, 1, 0},
		"control flood":            {func(f *flow) { f.ctlSeen = Reserve }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(Reserve+2, Reserve+2)
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
	f := newFlow(Reserve+2, Reserve+2)
	f.stopWanted = true
	require.True(t, f.controlDue(false))
	require.NoError(t, f.receive(0, immFIN))
	require.False(t, f.controlDue(false))
}

// FuzzFlow receives anything at all: the counts never get out of bounds.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1}, uint8(3))
	f.Add([]byte{0x80, 0, 0, 0, 0, 0x40, 0, 0, 1, 1}, uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, sent uint8) {
		fl := newFlow(Reserve+4, Reserve+300)
		for range sent {
			fl.sendData(false)
		}
		for ; len(in) >= 5; in = in[5:] {
			imm := uint32(in[0])<<24 | uint32(in[1])<<16 | uint32(in[2])<<8 | uint32(in[3])
			err := fl.receive(int(in[4]%2), imm)
			require.LessOrEqual(t, fl.credits(), fl.window)
			require.LessOrEqual(t, int(fl.sent-fl.granted), int(sent))
			require.LessOrEqual(t, int(fl.arrived-fl.freed), fl.own)
			if err != nil {
				return
			}
			if in[4]&2 != 0 && fl.arrived != fl.freed {
				fl.free()
			}
		}
	})
}
