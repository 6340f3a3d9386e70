package rxe

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// memory is a mapped queue.
func memory(t *testing.T, slots, shift uint32, size int) *verbs.Page {
	t.Helper()
	mem, err := hostmem.Alloc(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mem.Free()) })
	if size >= rxeabi.Size[rxeabi.Queue]() {
		head := rxeabi.View[rxeabi.Queue](mem.Bytes())
		head.Log2ElemSize, head.IndexMask = shift, slots-1
	}
	return verbs.NewPage(mem.Bytes()[:size], nil, nil)
}

// wholeRing is a ring of slots of 128 bytes.
func wholeRing(t *testing.T, slots uint32) *ring {
	t.Helper()
	r, err := newRing(memory(t, slots, 7, rxeabi.Size[rxeabi.Queue]()+int(slots)*128), 128)
	require.NoError(t, err)
	return r
}

func TestRingSizes(t *testing.T) {
	const head = 384
	for name, test := range map[string]struct {
		slots, shift uint32
		size, want   int
		ok           bool
	}{
		"fits":                  {8, 7, head + 8*128, 128, true},
		"no head":               {8, 7, head - 1, 128, false},
		"slots beyond the end":  {8, 7, head + 8*128 - 1, 128, false},
		"no power of two":       {6, 7, head + 8*128, 128, false},
		"more than are counted": {1 << 16, 0, head + 1<<16, 1, false},
		"mask of all bits":      {0, 7, head + 8*128, 128, false},
		"smaller elements":      {8, 6, head + 8*128, 128, false},
		"absurd elements":       {8, 61, head + 8*128, 128, false}, // their bytes are 0 in 64 bits
	} {
		r, err := newRing(memory(t, test.slots, test.shift, test.size), test.want)
		require.Equal(t, test.ok, err == nil, name)
		if test.ok {
			require.Equal(t, test.slots, r.slots())
			require.Len(t, r.slot(7), test.want)
		}
	}
}

// Whatever the other side writes into the indices, slots stay within the queue.
func TestRingWildIndices(t *testing.T) {
	r := wholeRing(t, 8)
	for _, wild := range []uint32{8, 0xffff_ffff, 1 << 31} {
		r.head.ProducerIndex, r.head.ConsumerIndex = wild, wild
		require.Equal(t, wild&7 != 3, r.ready(3))
		require.Equal(t, wild&7 == 4, r.full(3))
		require.Len(t, r.slot(wild), 128)
	}
	r.produce(21)
	r.consume(30)
	require.EqualValues(t, 5, r.head.ProducerIndex)
	require.EqualValues(t, 6, r.head.ConsumerIndex)
}

// kernel is the producer of a queue's ring.
type kernel struct {
	q    *Queue
	next uint32
}

func newKernel(t *testing.T, slots uint32) *kernel {
	q := &Queue{dev: &nic.Device{}, ring: wholeRing(t, slots), pairs: map[uint64]*attached{}}
	q.rooms.Size = slots - 1
	return &kernel{q: q}
}

func (k *kernel) complete(w uapi.WorkCompletion) {
	*k.q.at(k.next) = w
	k.next++
	k.q.ring.produce(k.next)
}

// enter adds the queue pair id, with n entries and n receives outstanding.
func (k *kernel) enter(id uint64, n int) *attached {
	a := &attached{ledger: ledger.Pair{QPN: uint32(id), Sends: ledger.NewSends(64, 64), Receives: ledger.NewReceives(64, 64)}}
	for i := range n {
		a.ledger.Sends.Open(ledger.Entry{ID: id*1000 + uint64(i), Op: uint8(work.Write)}, 1)
		a.ledger.Receives.Open(id*1000 + 500 + uint64(i))
	}
	a.ledger.Sends.HandOver()
	k.q.enter(id, a)
	return a
}

func (k *kernel) poll(t *testing.T) []work.Completion {
	t.Helper()
	c := make([]work.Completion, 100)
	n, err := k.q.Poll(c)
	require.NoError(t, err)
	return c[:n]
}

func TestPurgeKeepsOthersInOrder(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		k := newKernel(t, 32)
		k.next = random.Uint32()
		k.q.next = k.next
		k.q.ring.consume(k.next)
		k.q.ring.produce(k.next)
		var counters [2]uint32
		var want []uint64
		k.enter(1, 31)
		k.enter(2, 31)
		for range random.IntN(32) {
			pair := random.IntN(2)
			k.complete(uapi.WorkCompletion{WRID: makeID(uint64(pair+1), work.Sends, counters[pair])})
			if pair == 1 {
				want = append(want, 2000+uint64(counters[1]))
			}
			counters[pair]++
		}
		require.NoError(t, k.q.attach(1))
		k.q.detach(1, 1)
		var got []uint64
		for _, c := range k.poll(t) {
			require.False(t, c.Unexpected, "seed %d", seed)
			got = append(got, c.ID)
		}
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, k.next&31, k.q.ring.head.ConsumerIndex, "seed %d", seed)
		require.Empty(t, k.poll(t))
	}
}

func TestUnexpectedCompletions(t *testing.T) {
	k := newKernel(t, 32)
	a := k.enter(1, 2)
	sendsOnly := &attached{ledger: ledger.Pair{Sends: ledger.NewSends(4, 4)}}
	k.q.enter(2, sendsOnly)
	unexpected := work.Completion{QPN: 9, Status: verbs.GeneralError, Unexpected: true}
	for _, id := range []uint64{
		makeID(7, work.Sends, 0),    // nobody's
		makeID(1, work.Sends, 2),    // not outstanding
		makeID(1, work.Receives, 1), // not the oldest
		makeID(2, work.Receives, 0), // of a pair with no receive ring
		0, 1<<64 - 1,
	} {
		k.complete(uapi.WorkCompletion{WRID: id, QPNum: 9})
		require.Equal(t, []work.Completion{unexpected}, k.poll(t), "%#x", id)
	}
	require.False(t, a.failed.Load())

	// A status that is not known, and details of failures that mean nothing.
	k.complete(uapi.WorkCompletion{WRID: makeID(1, work.Receives, 0), QPNum: 1, Status: 77, VendorErr: 5,
		Opcode: rxeabi.CompletedReceiveWrite, ByteLen: 3, WcFlags: rxeabi.CompletedWithImm})
	require.Equal(t, []work.Completion{{ID: 1500, QPN: 1, Ring: work.Receives, Op: work.Receive, Status: verbs.GeneralError, Vendor: 5}}, k.poll(t))
	require.True(t, a.failed.Load())

	// Nobody waits for a queue pair whose destruction failed.
	require.NoError(t, k.q.attach(1))
	k.q.abandon(1)
	k.complete(uapi.WorkCompletion{WRID: makeID(1, work.Sends, 0)})
	require.Empty(t, k.poll(t))
	require.EqualValues(t, 30, k.q.Room())

	k.q.wake.Failed(true)
	_, err := k.q.Poll(make([]work.Completion, 1))
	require.ErrorIs(t, err, work.ErrOverrun)
	require.ErrorIs(t, k.q.Arm(false), work.ErrOverrun)
}

// A ring that the kernel still has is full, whatever was completed.
func TestPostToAFullRing(t *testing.T) {
	bounds := nic.Bounds{SendSegments: 1, ReceiveSegments: 1, Message: 100}
	s := sender{ledger: ledger.NewSends(4, 4), bounds: &bounds, ring: wholeRing(t, 4)}
	r := receiver{ledger: ledger.NewReceives(4, 4), bounds: &bounds, ring: wholeRing(t, 4)}
	for i := range uint64(3) {
		require.NoError(t, r.post(i, []work.Segment{{Addr: 1, Length: 2, LKey: 3}}))
	}
	require.ErrorIs(t, r.post(3, nil), work.ErrRoom)
	r.ring.consume(1)
	require.NoError(t, r.post(3, nil))
	s.ring.head.ConsumerIndex = 1
	require.ErrorIs(t, s.post(&work.Entry{Op: work.Send}), work.ErrRoom)
}
