package rc

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// fixedHost is a Host that owns nothing but a few counters and copies between
// fixed buffers, so that what is measured is the queue pair.
type fixedHost struct {
	mem      [1 << 16]byte
	receives int
	done     int
	failed   int
}

func (h *fixedHost) Gather(_ *Work, off uint32, p []byte) Syndrome {
	copy(p, h.mem[off:])
	return OK
}

func (h *fixedHost) Scatter(_ *Work, off uint32, p []byte) Syndrome {
	copy(h.mem[off:], p)
	return OK
}

func (h *fixedHost) CompleteSend(_ *Work, s Syndrome, _ uint32) {
	h.done++
	if s != OK {
		h.failed++
	}
}

func (h *fixedHost) TakeReceive() (uint32, bool) { return uint32(len(h.mem)), true }

func (h *fixedHost) PutReceive(off uint32, p []byte) Syndrome {
	copy(h.mem[off:], p)
	return OK
}

func (h *fixedHost) CompleteReceive(Arrival) { h.receives++ }

func (h *fixedHost) CheckRemote(_ uint32, va uint64, n uint32, _ Access) bool {
	return va+uint64(n) <= uint64(len(h.mem))
}

func (h *fixedHost) WriteRemote(_ uint32, va uint64, p []byte) bool {
	copy(h.mem[va:], p)
	return true
}

func (h *fixedHost) ReadRemote(_ uint32, va uint64, p []byte) bool {
	copy(p, h.mem[va:])
	return true
}

func (h *fixedHost) Atomic(uint32, uint64, Op, uint64, uint64) (uint64, bool) { return 0, true }

func (h *fixedHost) Invalidate(uint32) bool { return true }

func (h *fixedHost) Event(Event) {}

// wire joins two queue pairs directly.
type wire struct {
	host [2]fixedHost
	q    [2]*QP
	buf  [4096 + Headroom]byte
	now  time.Time
}

func newWire(tb testing.TB, mtu int) *wire {
	w := &wire{now: testNow}
	for i := range w.q {
		w.q[i] = New(&w.host[i], Params{Depth: 64})
		require.NoError(tb, w.q[i].StartReceive(Receiving{MTU: mtu, Reads: 16, Access: RemoteWrite | RemoteRead | RemoteAtomic}))
		require.NoError(tb, w.q[i].StartSend(Sending{Reads: 16, Timeout: 14, Retries: 7, RNRRetry: 7}))
	}
	return w
}

// carry lets all packets pass, a burst in one direction at a time.
func (w *wire) carry() (packets int) {
	for moved := true; moved; {
		moved = false
		for i, q := range w.q {
			for {
				n := q.Transmit(w.now, w.buf[:])
				if n == 0 {
					break
				}
				moved = true
				packets++
				p, err := roce.Parse(w.buf[:n])
				if err != nil {
					panic(err)
				}
				w.q[1-i].Receive(w.now, &p)
			}
		}
	}
	return packets
}

// No allocation per message of any kind, in either half, in steady state.
func TestNoAllocation(t *testing.T) {
	for op := OpNop; op <= OpFetchAdd; op++ {
		w := newWire(t, 1024)
		works := Work{Op: op, Length: 5000, Fence: true}
		allocs := testing.AllocsPerRun(200, func() {
			for range 40 {
				w.q[0].Post(&works)
			}
			w.carry()
			w.q[0].Expire(w.now)
			w.q[0].Deadline()
		})
		require.Zero(t, allocs, op)
		require.Equal(t, 201*40, w.host[0].done, op)
		require.Zero(t, w.host[0].failed, op)
	}
}

// Nor when packets are lost and sent again.
func TestNoAllocationOnLoss(t *testing.T) {
	w := newWire(t, 1024)
	work := Work{Op: OpSend, Length: 5000}
	lose := func(q *QP, n int) {
		for range n {
			q.Transmit(w.now, w.buf[:])
		}
	}
	require.Zero(t, testing.AllocsPerRun(200, func() {
		w.q[0].Post(&work)
		w.q[0].Post(&Work{Op: OpRead, Length: 5000})
		w.q[0].Post(&work)
		lose(w.q[0], 1)
		w.carry()
		lose(w.q[1], 1)
		w.now = w.now.Add(time.Second)
		w.q[0].Expire(w.now)
		w.carry()
	}))
	require.Zero(t, w.host[0].failed)
}

// Packets per second through both halves, acknowledgements included.
func BenchmarkPackets(b *testing.B) {
	for _, op := range []Op{OpSend, OpWrite, OpRead} {
		for _, size := range []uint32{64, 4096, 1 << 16} {
			b.Run(fmt.Sprintf("%v/%dB", op, size), func(b *testing.B) {
				w := newWire(b, 4096)
				work := Work{Op: op, Length: size}
				packets := 0
				b.SetBytes(16 * int64(size))
				for b.Loop() {
					for range 16 {
						w.q[0].Post(&work)
					}
					packets += w.carry()
				}
				b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
			})
		}
	}
}

// What a NIC pays to ask a queue pair that has nothing to send.
func BenchmarkTransmitIdle(b *testing.B) {
	w := newWire(b, 4096)
	for b.Loop() {
		w.q[0].Transmit(w.now, w.buf[:])
	}
}
