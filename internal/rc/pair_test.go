package rc

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

var (
	seedFlag  = flag.Uint64("rc.seed", 0, "run the impairment tests with this seed only")
	seedsFlag = flag.Int("rc.seeds", 8, "run the impairment tests with so many seeds")
)

// impairments are chances per packet.
type impairments struct{ loss, duplicate, reorder float64 }

// network joins two queue pairs by a pipe in virtual time.
type network struct {
	t    *testing.T
	rnd  *rand.Rand
	imp  impairments
	now  time.Time
	ends [2]*end
	air  []flight // by time

	depth   uint32 // works outstanding
	passing bool   // messages are passed when they can be, now and then
}

type flight struct {
	at  time.Time
	to  int
	raw []byte
}

// end is a queue pair, its host, and the model of what must come of it.
type end struct {
	*testHost
	q       *QP
	rnd     *rand.Rand
	peer    *end
	toPost  int    // works still to post
	slot    uint32 // of the next work
	thrift  int    // how seldom it posts a receive
	model   []byte // what the peer's region must hold after the works posted so far
	fence   bool   // a READ has been posted since the last fence
	works   map[uint32]Work
	wants   map[uint32][]byte // local memory of READs and atomics when they complete
	sent    []expected        // what the peer must receive
	arrived int
	next    uint32 // slot to complete next
}

// expected is a message that takes a receive.
type expected struct {
	Arrival
	data string // of a SEND, or of a WRITE at va
	va   uint64
}

const (
	regionSize = 4096
	mostBytes  = 1500 // of a message, some MTUs
)

func newNetwork(t *testing.T, seed uint64, imp impairments, works int) *network {
	n := &network{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), imp: imp, now: testNow, depth: 20}
	psn := [2]uint32{n.rnd.Uint32() & mask24, 0xfffff8}
	for i := range n.ends {
		e := &end{testHost: newTestHost(t), rnd: n.rnd, toPost: works, thrift: 4 << n.rnd.IntN(7), works: map[uint32]Work{}, wants: map[uint32][]byte{}}
		e.model = pattern(regionSize)
		e.regions[testKey] = &region{testVA, pattern(regionSize), RemoteWrite | RemoteRead | RemoteAtomic}
		e.q = New(e, Params{Depth: 8, Window: 1 + n.rnd.IntN(40)})
		reads := 1 + n.rnd.IntN(5)
		require.NoError(t, e.q.StartReceive(Receiving{PeerQPN: uint32(i), MTU: 256, PSN: psn[1-i], Reads: 5,
			RNRTimer: uint8(1 + n.rnd.IntN(12)), Access: RemoteWrite | RemoteRead | RemoteAtomic}))
		require.NoError(t, e.q.StartSend(Sending{PSN: psn[i], Reads: reads, Timeout: 4, Retries: 7, RNRRetry: 7}))
		n.ends[i] = e
	}
	n.ends[0].peer, n.ends[1].peer = n.ends[1], n.ends[0]
	return n
}

// postRandom posts one work and foresees its outcome.
func (e *end) postRandom() {
	e.toPost--
	w := Work{Slot: e.slot, Op: Op(e.rnd.IntN(int(OpFetchAdd) + 1)), RKey: testKey, Imm: e.rnd.Uint32(),
		Solicited: e.rnd.IntN(2) == 0, Fence: e.rnd.IntN(8) == 0}
	e.slot++
	switch e.rnd.IntN(4) {
	case 0:
	case 1:
		w.Length = 256 * uint32(e.rnd.IntN(6))
	default:
		w.Length = uint32(e.rnd.IntN(mostBytes))
	}
	at := e.rnd.IntN(regionSize - mostBytes)
	if w.Op.isAtomic() {
		at &^= 7
	}
	w.Remote = testVA + uint64(at)
	data := make([]byte, w.Length)
	for i := range data {
		data[i] = byte(e.rnd.Uint32())
	}
	if w.Op == OpSendInvalidate {
		w.Imm = 1000 + w.Slot
		e.peer.regions[w.Imm] = &region{}
	}
	if w.Op.isWrite() || w.Op.isAtomic() {
		w.Fence = w.Fence || e.fence
	}
	if w.Fence {
		e.fence = false
	}
	e.foresee(&w, at, data)
	e.local[w.Slot] = data
	e.works[w.Slot] = w
	e.q.Post(&w)
}

// foresee applies w to the model.
func (e *end) foresee(w *Work, at int, data []byte) {
	a := Arrival{Op: w.Op, Bytes: w.Length, Solicited: w.Solicited, Imm: w.Imm, HasImm: true}
	switch w.Op {
	case OpSend:
		a.Imm, a.HasImm = 0, false
	case OpSendInvalidate:
		a.HasImm = false
	case OpWrite, OpWriteImm:
		copy(e.model[at:], data)
	case OpRead:
		e.wants[w.Slot] = slices.Clone(e.model[at : at+len(data)])
		e.fence = true
	case OpCompareSwap, OpFetchAdd:
		word := e.model[at : at+8]
		e.wants[w.Slot] = slices.Clone(word)
		old := binary.NativeEndian.Uint64(word)
		w.SwapAdd, w.Compare = e.rnd.Uint64(), old+uint64(e.rnd.IntN(2))
		if w.Op == OpFetchAdd {
			binary.NativeEndian.PutUint64(word, old+w.SwapAdd)
		} else if w.Compare == old {
			binary.NativeEndian.PutUint64(word, w.SwapAdd)
		}
	}
	if w.Op.TakesReceive() {
		e.sent = append(e.sent, expected{a, string(data), w.Remote})
	}
}

func (e *end) Gather(w *Work, off uint32, p []byte) Syndrome {
	if w.Op.isAnswered() {
		e.t.Errorf("gather for %v", w.Op)
	}
	return e.testHost.Gather(w, off, p)
}

func (e *end) Scatter(w *Work, off uint32, p []byte) Syndrome {
	if w.Op.isAtomic() {
		e.local[w.Slot] = make([]byte, 8)
	}
	return e.testHost.Scatter(w, off, p)
}

func (e *end) CompleteSend(w *Work, s Syndrome, n uint32) {
	bytes := w.Length
	switch {
	case w.Op == OpNop:
		bytes = 0
	case w.Op.isAtomic():
		bytes = 8
	}
	if s != OK || n != bytes || w.Slot != e.next || *w != e.works[w.Slot] {
		e.t.Errorf("completion %v, %d bytes, of work %+v; turn of %d", s, n, *w, e.next)
	}
	if want, ok := e.wants[w.Slot]; ok && !slices.Equal(want, e.local[w.Slot]) {
		e.t.Errorf("%v in slot %d returned other bytes than are there", w.Op, w.Slot)
	}
	e.next++
	delete(e.works, w.Slot)
	delete(e.local, w.Slot)
}

func (e *end) CompleteReceive(a Arrival) {
	e.testHost.CompleteReceive(a)
	want := e.peer.sent[e.arrived]
	e.arrived++
	if a != want.Arrival {
		e.t.Errorf("arrival %+v, want %+v", a, want.Arrival)
	}
	got := e.data[len(e.data)-1]
	if a.Op == OpWriteImm {
		got = string(e.find(testKey, want.va, len(want.data), RemoteWrite))
	}
	if got != want.data {
		e.t.Errorf("%v of %d bytes brought other bytes than were sent", a.Op, a.Bytes)
	}
	e.data = e.data[:0]
}

// pull lets an end send up to n packets, or pass messages.
func (n *network) pull(i, limit int) {
	if n.passing && n.rnd.IntN(2) == 0 {
		e := n.ends[i]
		for w := e.q.Passable(e.peer.q); w != nil && e.q.Pass(n.now, e.peer.q, e.local[w.Slot]); {
			w = e.q.Passable(e.peer.q)
		}
	}
	var p [256 + Headroom]byte
	for range limit {
		size := n.ends[i].q.Transmit(n.now, p[:])
		if size == 0 {
			return
		}
		copies := 1
		if n.rnd.Float64() < n.imp.loss {
			copies = 0
		} else if n.rnd.Float64() < n.imp.duplicate {
			copies = 2
		}
		for range copies {
			delay := 2 * time.Microsecond
			if n.rnd.Float64() < n.imp.reorder {
				delay += time.Duration(n.rnd.IntN(60_000))
			}
			n.launch(flight{n.now.Add(delay), 1 - i, slices.Clone(p[:size])})
		}
	}
}

func (n *network) launch(f flight) {
	i, _ := slices.BinarySearchFunc(n.air, f, func(a, b flight) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	n.air = slices.Insert(n.air, i, f)
}

// step does what comes next; false when nothing is left to do.
func (n *network) step() bool {
	busy := false
	for i, e := range n.ends {
		for e.toPost > 0 && e.slot-e.next < n.depth && n.rnd.IntN(3) > 0 {
			e.postRandom()
		}
		if len(e.receives) < 10 && n.rnd.IntN(e.thrift) == 0 {
			e.post(mostBytes)
		}
		n.pull(i, n.rnd.IntN(8))
		busy = busy || e.toPost > 0 || e.next != e.slot
	}
	n.now = n.now.Add(200 * time.Nanosecond)
	for len(n.air) > 0 && !n.air[0].at.After(n.now) {
		f := n.air[0]
		n.air = n.air[1:]
		p, err := roce.Parse(f.raw)
		require.NoError(n.t, err)
		n.ends[f.to].q.Receive(n.now, &p)
	}
	for _, e := range n.ends {
		if at, ok := e.q.Deadline(); ok && !n.now.Before(at) {
			e.q.Expire(n.now)
		}
	}
	return busy
}

func (n *network) run() {
	for i := 0; n.step(); i++ {
		if n.t.Failed() || i > 5_000_000 {
			n.t.Fatalf("stopped after %d steps, %v: %+v %+v", i, n.now.Sub(testNow), n.ends[0].q.Counters(), n.ends[1].q.Counters())
		}
	}
	for _, e := range n.ends {
		require.Equal(n.t, ReadyToSend, e.q.State())
		require.Equal(n.t, e.arrived, len(e.peer.sent))
		require.Equal(n.t, e.peer.model, e.regions[testKey].mem)
	}
}

func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	s := make([]uint64, *seedsFlag)
	for i := range s {
		s[i] = uint64(i + 1)
	}
	return s
}

// Random works of every kind both ways, through loss, duplication and reordering,
// come to what they come to in the model, byte by byte.
func TestImpairedPair(t *testing.T) {
	for _, imp := range []impairments{
		{},
		{loss: 0.01},
		{loss: 0.1},
		{duplicate: 0.1},
		{reorder: 0.05},
		{loss: 0.03, duplicate: 0.05, reorder: 0.03},
	} {
		var sum Counters
		for _, seed := range seeds() {
			t.Run(fmt.Sprintf("loss=%v,duplicate=%v,reorder=%v/seed=%d", imp.loss, imp.duplicate, imp.reorder, seed), func(t *testing.T) {
				n := newNetwork(t, seed, imp, 300)
				n.run()
				for _, e := range n.ends {
					c := e.q.Counters()
					sum.Timeouts += c.Timeouts
					sum.RequestsSent += c.RequestsSent
					sum.RequestsRepeated += c.RequestsRepeated
					sum.SequenceNAKs += c.SequenceNAKs
					sum.ImpliedNAKs += c.ImpliedNAKs
					sum.NotReadyNAKs += c.NotReadyNAKs
				}
			})
		}
		t.Logf("%+v: %+v", imp, sum)
		if imp.loss+imp.reorder == 0 {
			require.Zero(t, sum.Timeouts+sum.SequenceNAKs+sum.ImpliedNAKs, "recovery without a loss")
		}
	}
}
