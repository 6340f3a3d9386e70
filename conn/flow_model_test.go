package conn

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// end is one side of the model: its credits, the state of its application, and the
// messages on their way to it. docs/flow-control.md tells of it.
type end struct {
	flow     flow
	reads    bool // the application reads what comes
	stops    bool // it may close its reading side
	ends     bool // it may end its stream; otherwise it has done so from the start
	probes   int8 // it may still send
	grows    int8 // times that its window may still grow
	toWrite  int8 // messages it has written, not sent
	unread   int8 // messages arrived and not read
	receives int8 // posted
	empties  int8 // of its messages without payload, those that have not completed
	onWire   int8
	wire     [8]message
}

type message struct {
	n   uint8
	imm uint32
}

// world is both sides. It is comparable: states that are equal are explored once.
type world [2]end

// left reports whether the side has data to send.
func (e *end) left() bool { return e.toWrite > 0 && !e.flow.stopSeen }

// steps returns the worlds that one event can lead to. must is how many of them are by
// events that have to happen, sooner or later; the others are up to the applications.
func (w world) steps(t *testing.T) (next []world, must int) {
	for i := range w {
		step := func(change func(me, peer *end)) {
			n := w
			change(&n[i], &n[1-i])
			next = append(next, n)
		}
		me, peer := &w[i], &w[1-i]
		if me.left() && me.flow.credits() > 0 {
			step(func(me, peer *end) {
				me.toWrite--
				peer.add(1, me.flow.sendData(me.toWrite == 0))
			})
		}
		if me.flow.controlDue(me.left()) {
			if !me.flow.controlAllowed() {
				require.Fail(t, "a control message must wait for the peer", "%+v", w)
			}
			if me.empties < Reserve {
				step(func(me, peer *end) {
					me.empties++
					peer.add(0, me.flow.sendControl(me.left()))
				})
			}
		}
		if me.onWire > 0 {
			step(func(me, peer *end) { me.arrive(t, peer) })
		}
		if me.unread > 0 && me.reads {
			step(func(me, _ *end) { me.unread--; me.repost() })
		}
		must = len(next)
		for n := 1; me.grows > 0 && me.flow.mayGrow(n); n++ {
			step(func(me, _ *end) {
				me.grows--
				me.receives += int8(n)
				me.flow.grow(n)
			})
		}
		if me.probes > 0 && me.flow.credits() > 0 && !me.left() && !me.flow.controlDue(false) && peer.onWire == 0 {
			step(func(me, peer *end) {
				me.probes--
				me.empties++
				peer.add(0, me.flow.sendProbe())
			})
		}
		if me.stops && !me.flow.stopWanted {
			step(func(me, _ *end) { // what is unread stays where it is
				me.flow.stopWanted = true
				me.reads = false
			})
		}
		if me.ends && !me.flow.finWanted {
			step(func(me, _ *end) { me.flow.finWanted = true })
		}
		must -= len(next)
	}
	return next, len(next) + must
}

func (e *end) add(n uint8, imm uint32) {
	e.wire[e.onWire] = message{n, imm}
	e.onWire++
}

func (e *end) repost() {
	e.receives++
	e.flow.free()
}

func (e *end) arrive(t *testing.T, peer *end) {
	m := e.wire[0]
	copy(e.wire[:], e.wire[1:])
	e.wire[len(e.wire)-1] = message{}
	e.onWire--
	e.receives--
	if err := e.flow.receive(int(m.n), m.imm); err != nil || e.receives < 0 {
		require.Fail(t, "receiver not ready, or refuses", "%v: %+v", err, e)
	}
	switch {
	case m.n > 0:
		e.unread++
		return
	case isData(0, m.imm) && e.flow.shrink():
	case isData(0, m.imm):
		e.repost()
	default:
		e.receives++
	}
	peer.empties--
}

// settled checks a world in which nothing has to happen any more: everything was said and
// has arrived but for what an application does not want to read, and no credit is lost.
func (w world) settled(t *testing.T) {
	for i := range w {
		me, peer := &w[i], &w[1-i]
		unread := int(peer.unread)
		require.Equal(t, unread, peer.flow.own-peer.flow.room(), "unread: %+v", w)
		unreported := int(peer.flow.freed - peer.flow.reported)
		require.Equal(t, me.flow.window-me.flow.unaccounted(), peer.flow.own-unread-unreported, "credits: %+v", w)
		require.Equal(t, peer.flow.own+Reserve, int(peer.receives)+unread, "receives: %+v", w)
		require.Equal(t, peer.flow.finSeen, me.flow.finSent)
		if me.left() {
			require.False(t, peer.reads, "locked up: %+v", w)
			require.Equal(t, peer.flow.own, unread, "locked up: %+v", w)
			continue
		}
		require.Equal(t, me.flow.finWanted, me.flow.finSent, "locked up: %+v", w)
		require.True(t, !me.flow.stopWanted || me.flow.stopSent || me.flow.finSeen)
	}
}

// explore goes through all worlds that can come of start, and returns how many there are.
func explore(t *testing.T, start world) int {
	seen := map[world]bool{start: true}
	todo := []world{start}
	settled := 0
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, must := w.steps(t)
		if must == 0 {
			w.settled(t)
			settled++
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	require.Positive(t, settled)
	return len(seen)
}

// scenarios are what the applications of both sides do, but for when they do it.
var scenarios = []struct {
	name     string
	messages [][2]int8 // that each side writes
	change   func(w *world)
	large    bool // explored for the smallest windows only
}{
	{"both write and read", [][2]int8{{6, 6}, {8, 0}, {1, 6}}, func(*world) {}, false},
	{"counters wrap", [][2]int8{{6, 6}, {8, 0}}, (*world).wrap, false},
	{"streams end at any time", [][2]int8{{3, 3}, {4, 0}}, func(w *world) { w.both(func(e *end) { e.ends, e.flow.finWanted = true, false }) }, false},
	{"both may stop reading", [][2]int8{{3, 3}, {5, 0}, {1, 3}}, func(w *world) { w.both(func(e *end) { e.stops = true }) }, false},
	{"nobody reads", [][2]int8{{6, 6}, {8, 0}}, func(w *world) { w.both(func(e *end) { e.reads = false }) }, false},
	{"one side never reads", [][2]int8{{6, 6}, {1, 8}}, func(w *world) { w[0].reads = false }, false},
	{"probes", [][2]int8{{2, 2}, {3, 0}}, func(w *world) {
		w.wrap()
		w.both(func(e *end) { e.probes, e.ends, e.flow.finWanted = 2, true, false })
	}, true},
	{"probes, one side stops reading", [][2]int8{{2, 2}, {0, 4}}, func(w *world) {
		w.both(func(e *end) { e.probes, e.ends, e.flow.finWanted = 1, true, false })
		w[0].stops = true
	}, true},
	{"probes, nobody reads", [][2]int8{{4, 4}, {5, 1}}, func(w *world) {
		w.both(func(e *end) { e.reads, e.probes, e.ends, e.flow.finWanted = false, 2, true, false })
	}, true},
	{"windows grow", [][2]int8{{2, 2}, {6, 0}, {1, 4}}, func(w *world) {
		w.wrap()
		w.both(func(e *end) { e.grows = 2 })
		w.widen(3)
	}, true},
	{"windows grow and shrink", [][2]int8{{1, 1}, {0, 3}}, func(w *world) {
		w[0].grows, w[1].probes = 2, 2
		w[1].ends, w[1].flow.finWanted = true, false
		w.widen(2)
	}, true},
	{"windows grow and shrink, one side may stop reading", [][2]int8{{0, 2}, {1, 2}}, func(w *world) {
		w[0].grows, w[1].probes, w[0].stops = 1, 2, true
		w[1].ends, w[1].flow.finWanted = true, false
		w.widen(2)
	}, true},
	{"windows grow, nobody reads", [][2]int8{{6, 6}, {8, 0}}, func(w *world) {
		w.both(func(e *end) { e.grows, e.reads = 2, false })
		w.widen(5)
	}, true},
}

// widen lets the windows of both sides grow by n.
func (w *world) widen(n int) {
	w.both(func(e *end) {
		e.flow.most += n
		e.flow.widest += n
	})
}

func (w *world) both(change func(*end)) {
	change(&w[0])
	change(&w[1])
}

// wrap lets all counters start shortly before they wrap.
func (w *world) wrap() {
	const data, controls = 0xfffe, 0xff
	w.both(func(e *end) {
		f := &e.flow
		f.sent, f.granted, f.arrived, f.freed, f.reported = data, data, data, data, data
		f.ctlSent, f.ctlKnown, f.ctlSeen, f.ctlReported, f.lastReport = controls, controls, controls, controls, controls
	})
}

// TestFlowExplored goes through every order of events of every scenario for small
// windows. There is always a receive for a message, a control message never waits for
// the peer, no credit is lost, and whatever has happened, everything is delivered in
// the end. docs/flow-control.md has the number of states.
func TestFlowExplored(t *testing.T) {
	total := 0
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			states := 0
			for _, r := range [][2]int{{4, 4}, {4, 5}, {5, 5}, {6, 4}, {6, 6}, {7, 5}} {
				if s.large && r[0]+r[1] > 9 || raceEnabled && r[0]+r[1] > 8 {
					continue
				}
				for _, n := range s.messages {
					var w world
					for i := range w {
						w[i] = end{flow: newFlow([2]int{r[i], r[i]}, [2]int{r[1-i], r[1-i]}), toWrite: n[i], receives: int8(r[i]), reads: true}
						w[i].flow.finWanted = true
					}
					s.change(&w)
					states += explore(t, w)
				}
			}
			t.Logf("%d states", states)
			total += states
		})
	}
	t.Logf("%d states in all", total)
	if raceEnabled || t.Failed() {
		return
	}
	page, err := os.ReadFile("../docs/flow-control.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("%d states", total), "docs/flow-control.md")
}
