package wire

import (
	"context"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/vmtest/cable"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTime is how long a condition may take in an emulated machine.
const waitTime = time.Minute

const (
	device    = cable.Device
	namespace = cable.Namespace
)

type network = cable.Network

var networks = cable.Networks

func lay(t *testing.T) {
	t.Helper()
	cable.Lay(t)
}

// inNamespace runs f in the other namespace.
func inNamespace(t *testing.T, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	defer here.Close()
	there, err := os.Open("/run/netns/" + namespace)
	require.NoError(t, err)
	defer there.Close()
	require.NoError(t, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	defer func() { require.NoError(t, unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)) }()
	f()
}

// end is an open NIC with a region, and how to make queue pairs on it.
type end struct {
	t      *testing.T
	soft   *softnic.NIC // of the end that is not the kernel's
	memory memory
	pair   func() *pair
}

type memory interface {
	Bytes() []byte
	Local(off, n int) work.Segment
	Remote(off int) (work.Target, error)
}

// pair is a queue pair with its completion queue.
type pair struct {
	driver
	done interface {
		Poll([]work.Completion) (int, error)
		Wait(context.Context) error
	}
	ring    func() error
	destroy func()
}

type driver interface {
	Endpoint() verbs.Endpoint
	Connect(work.Access, verbs.Endpoint) error
	Post(work.Entry) error
	Receive(id uint64, into ...work.Segment) error
}

// sizes of a queue pair.
const sends, receives, completions = 8, 8, 32

func softEnd(t *testing.T, c softnic.Config, bytes int) *end {
	c.Network, c.Link = softnic.NewNetwork(), softnic.LinkUDP
	var soft *softnic.NIC
	inNamespace(t, func() {
		var err error
		soft, err = softnic.New(&c)
		require.NoError(t, err)
	})
	t.Cleanup(func() { require.NoError(t, soft.Close()) })
	file, err := soft.Open()
	require.NoError(t, err)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nic.Close()) })
	mr, err := region.Alloc(nic, work.RemoteReadWrite, bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mr.Close()) })
	return &end{t, soft, mr, func() *pair {
		done, err := cq.New(nic, completions)
		require.NoError(t, err)
		p, err := qp.New(done, qp.Config{Sends: sends, Receives: receives})
		require.NoError(t, err)
		return &pair{p, done, func() error { p.Ring(); return nil }, func() {
			require.NoError(t, p.Destroy())
			require.NoError(t, done.Close())
		}}
	}}
}

func kernelEnd(t *testing.T, addr netip.Addr, bytes int) *end {
	var nic *rxe.NIC
	require.Eventually(t, func() (ok bool) { // the kernel adds addresses in its own time
		var err error
		nic, err = rxe.Config{Addr: addr}.Open(device)
		return err == nil
	}, waitTime, 10*time.Millisecond)
	t.Cleanup(func() { require.NoError(t, nic.Close()) })
	mr, err := rxe.Alloc(nic, work.RemoteReadWrite, bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mr.Close()) })
	return &end{t, nil, mr, func() *pair {
		done, err := rxe.NewQueue(nic, completions)
		require.NoError(t, err)
		p, err := rxe.NewPair(done, rxe.PairConfig{Sends: sends, Receives: receives})
		require.NoError(t, err)
		return &pair{p, done, p.Ring, func() {
			require.NoError(t, p.Destroy())
			require.NoError(t, done.Close())
		}}
	}}
}

// line is two ends and a connected queue pair of each.
type line struct {
	t        *testing.T
	from, to *end
	a, b     *pair
}

// connect connects queue pairs of two ends.
func connect(t *testing.T, from, to *end, a, b *pair, mtu verbs.MTU) *line {
	t.Cleanup(a.destroy)
	t.Cleanup(b.destroy)
	ea, eb := a.Endpoint(), b.Endpoint()
	require.Equal(t, verbs.MTU4096, ea.MTU)
	require.Equal(t, verbs.MTU4096, eb.MTU)
	ea.MTU, eb.MTU = mtu, mtu
	require.NoError(t, a.Connect(work.RemoteReadWrite, eb))
	require.NoError(t, b.Connect(work.RemoteReadWrite, ea))
	return &line{t, from, to, a, b}
}

// next waits for a completion.
func (l *line) next(p *pair) work.Completion {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), waitTime)
	defer cancel()
	for {
		var c [1]work.Completion
		n, err := p.done.Poll(c[:])
		require.NoError(l.t, err)
		if n == 1 {
			return c[0]
		}
		require.NoError(l.t, p.done.Wait(ctx), "%+v", l.counters())
	}
}

// good waits for a completion that is a success.
func (l *line) good(p *pair) work.Completion {
	l.t.Helper()
	c := l.next(p)
	require.NoError(l.t, c.Err())
	return c
}

// post posts an entry on a and rings.
func (l *line) post(e work.Entry) {
	l.t.Helper()
	e.Signaled = true
	require.NoError(l.t, l.a.Post(e))
	require.NoError(l.t, l.a.ring())
}

// counters is those of the software NIC.
func (l *line) counters() softnic.Counters {
	if l.from.soft != nil {
		return l.from.soft.Counters()
	}
	return l.to.soft.Counters()
}
