package rxe_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTime is how long a condition may take in an emulated machine.
const waitTime = 20 * time.Second

// deviceEnv names a Soft-RoCE device of this machine that tests may use.
const deviceEnv = "FARWIRE_RXE"

// device is its name. Tests of the kernel are run in a virtual machine (make vm).
func device(t testing.TB) string {
	t.Helper()
	name := os.Getenv(deviceEnv)
	if name == "" {
		t.Skip(deviceEnv + " names no Soft-RoCE device")
	}
	return name
}

// host is an open NIC with a region and a completion queue. Nothing may be left of it
// when the test ends: neither memory here nor objects in the kernel.
type host struct {
	t    testing.TB
	nic  *rxe.NIC
	mr   *rxe.Region
	done *rxe.Queue
}

const regionSize = 1 << 20

func open(t testing.TB) *host {
	t.Helper()
	name := device(t)
	before, mappings := resources(t), live()
	t.Cleanup(func() {
		require.Equal(t, mappings, live())
		require.Equal(t, before, resources(t))
	})
	n, err := rxe.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	mr, err := rxe.Alloc(n, work.RemoteReadWrite, regionSize)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mr.Close()) })
	return &host{t, n, mr, queue(t, n, 128)}
}

func live() int {
	n, _ := hostmem.Live()
	return n
}

// resources is what the kernel counts of the devices' objects, of all processes.
func resources(t testing.TB) string {
	out, err := exec.Command("rdma", "resource", "show").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func queue(t testing.TB, n *rxe.NIC, size int) *rxe.Queue {
	t.Helper()
	q, err := rxe.NewQueue(n, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

func pairOn(t testing.TB, q *rxe.Queue, c rxe.PairConfig) *rxe.Pair {
	t.Helper()
	p, err := rxe.NewPair(q, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Destroy()) })
	return p
}

// line is two connected queue pairs of one NIC, each with a completion queue.
type line struct {
	*host
	a, b         *rxe.Pair
	doneA, doneB *rxe.Queue
}

var usual = rxe.PairConfig{Sends: 16, Receives: 16, SendSegments: 4, ReceiveSegments: 2, Inline: 64}

func newLine(t testing.TB, a work.Access) *line {
	h := open(t)
	l := &line{host: h, doneA: h.done, doneB: queue(t, h.nic, 64)}
	l.a, l.b = pairOn(t, l.doneA, usual), pairOn(t, l.doneB, usual)
	require.NoError(t, l.a.Connect(a, l.b.Endpoint()))
	require.NoError(t, l.b.Connect(a, l.a.Endpoint()))
	return l
}

// post posts on a and rings.
func (l *line) post(entries ...work.Entry) {
	l.t.Helper()
	for _, e := range entries {
		require.NoError(l.t, l.a.Post(e))
	}
	require.NoError(l.t, l.a.Ring())
}

// poll waits for n completions.
func poll(t testing.TB, q *rxe.Queue, n int) []work.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	var got []work.Completion
	for len(got) < n {
		require.NoError(t, q.Wait(ctx), "after %+v", got)
		var c [16]work.Completion
		m, err := q.Poll(c[:min(len(c), n-len(got))])
		require.NoError(t, err)
		got = append(got, c[:m]...)
	}
	return got
}

// one waits for a completion.
func one(t testing.TB, q *rxe.Queue) work.Completion {
	t.Helper()
	return poll(t, q, 1)[0]
}

// quiet checks that no completion is there.
func quiet(t testing.TB, q *rxe.Queue) {
	t.Helper()
	var c [1]work.Completion
	n, err := q.Poll(c[:])
	require.NoError(t, err)
	require.Zero(t, n, "%+v", c)
}

func success(id uint64, p *rxe.Pair, op work.Op, bytes uint32) work.Completion {
	c := work.Completion{ID: id, QPN: p.Number(), Op: op, Bytes: bytes}
	if op >= work.Receive {
		c.Ring = work.Receives
	}
	return c
}

func failure(id uint64, p *rxe.Pair, op work.Op, s verbs.Status) work.Completion {
	c := success(id, p, op, 0)
	c.Status = s
	return c
}

// fill fills n bytes of the region with a pattern and returns a copy.
func (h *host) fill(off, n int, seed byte) []byte {
	b := h.mr.Bytes()[off:][:n]
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	return append([]byte(nil), b...)
}

func (h *host) target(off int) work.Target {
	h.t.Helper()
	to, err := h.mr.Remote(off)
	require.NoError(h.t, err)
	return to
}
