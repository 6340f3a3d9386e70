package cq_test

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func TestMain(m *testing.M) { mlx5test.Main(m) }

// How long a condition may take, and how often it is looked at.
const (
	waitTime = 20 * time.Second
	tick     = time.Millisecond
)

// self is a host with a queue pair connected to itself.
func self(t *testing.T, c softnic.Config) (*mlx5test.Host, *qp.Pair) {
	t.Helper()
	h := mlx5test.NewHost(t, c)
	p := h.Pair(qp.Config{Sends: 64, Receives: 64})
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	return h, p
}

func write(t *testing.T, h *mlx5test.Host, p *qp.Pair, id uint64) {
	t.Helper()
	require.NoError(t, p.Post(qp.Entry{Op: qp.Write, ID: id, Remote: h.Target(0), Signaled: true}))
	p.Ring()
}

func TestPollInPieces(t *testing.T) {
	mlx5test.NeedSoft(t)
	h, p := self(t, softnic.Config{})
	var c [4]cq.Completion
	n, err := h.Done.Poll(c[:])
	require.NoError(t, err)
	require.Zero(t, n)
	var id uint64
	for lap := range 100 {
		for range lap % 9 {
			write(t, h, p, id)
			id++
		}
		n, err := h.Done.Poll(nil)
		require.NoError(t, err)
		require.Zero(t, n)
		for got := 0; got < lap%9; got += n {
			n, err = h.Done.Poll(c[:])
			require.NoError(t, err)
			require.Equal(t, min(len(c), lap%9-got), n)
			require.Equal(t, id-uint64(lap%9-got), c[0].ID)
		}
	}
}

// The armed queue gives one event at the next completion, and none before it is
// armed again.
func TestNotify(t *testing.T) {
	mlx5test.NeedSoft(t)
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		h, p := self(t, c)
		var calls atomic.Int32
		h.Done.Notify(func() { calls.Add(1) })
		write(t, h, p, 1)
		h.Poll(1)
		// Poll may have waited for an event, which calls too, perhaps after Poll has returned.
		before := int32(h.Soft.Counters().CompletionEvents)
		require.Eventually(t, func() bool { return calls.Load() == before }, waitTime, tick)
		for round := range int32(9) { // more than the sequence numbers
			require.NoError(t, h.Done.Arm(false))
			require.NoError(t, h.Done.Arm(false), "once more changes nothing")
			write(t, h, p, 2)
			require.Eventually(t, func() bool { return calls.Load() == before+round+1 }, waitTime, tick, "round %d", round)
			write(t, h, p, 3)
			pollOnly(t, h.Done, 2)
		}
		events := h.Soft.Counters().CompletionEvents
		write(t, h, p, 4)
		pollOnly(t, h.Done, 1)
		require.Equal(t, events, h.Soft.Counters().CompletionEvents, "not armed, no event")
		require.Zero(t, h.Soft.Counters().StaleArms)
		h.Done.Notify(nil)
	})
}

// pollOnly polls n completions without arming.
func pollOnly(t *testing.T, q *cq.Queue, n int) {
	t.Helper()
	var c [1]cq.Completion
	require.Eventually(t, func() bool {
		for {
			k, err := q.Poll(c[:])
			if n -= k; err != nil || k == 0 || n == 0 {
				return err == nil && n == 0
			}
		}
	}, waitTime, tick)
}

// Before the event an arm may widen what gives one, and never narrows it.
func TestArmNeverNarrows(t *testing.T) {
	h, p := self(t, softnic.Config{})
	var calls atomic.Int32
	h.Done.Notify(func() { calls.Add(1) })
	solicited := func(arms ...bool) (told []bool) {
		h.File.Record()
		for _, only := range arms {
			require.NoError(t, h.Done.Arm(only))
		}
		for _, b := range h.File.Bells() {
			value, _ := prm.ParseArmDoorbell(binary.NativeEndian.Uint64(b.Bytes))
			_, only, _, ok := prm.ParseArm(value)
			require.True(t, ok)
			told = append(told, only)
		}
		return told
	}
	for round := range int32(5) {
		require.Equal(t, []bool{true, true, false, false, false}, solicited(true, true, false, true, true))
		write(t, h, p, 1)
		require.Eventually(t, func() bool { return calls.Load() == round+1 }, waitTime, tick)
		pollOnly(t, h.Done, 1)
	}
	h.Done.Notify(nil)
}

// A queue armed for solicited events sleeps through others, and wakes for a
// failure.
func TestSolicitedOnly(t *testing.T) {
	network := softnic.NewNetwork()
	a := mlx5test.NewHost(t, softnic.Config{Network: network})
	b := mlx5test.NewHost(t, softnic.Config{Network: network})
	pb := b.Pair(qp.Config{Sends: 4, Receives: 8})
	pa := a.Pair(qp.Config{Sends: 8})
	require.NoError(t, pa.Connect(region.Local, pb.Endpoint()))
	require.NoError(t, pb.Connect(region.Local, pa.Endpoint()))
	var calls atomic.Int32
	b.Done.Notify(func() { calls.Add(1) })
	send := func(solicited bool) {
		require.NoError(t, pb.Receive(1))
		require.NoError(t, pa.Post(qp.Entry{Op: qp.Send, Solicited: solicited, Signaled: true}))
		pa.Ring()
		a.Poll(1)
	}
	require.NoError(t, b.Done.Arm(true))
	send(false)
	send(false)
	if b.Soft != nil {
		require.Zero(t, b.Soft.Counters().CompletionEvents)
	}
	send(true)
	require.Eventually(t, func() bool { return calls.Load() == 1 }, waitTime, tick)
	pollOnly(t, b.Done, 3)

	require.NoError(t, b.Done.Arm(true))
	require.NoError(t, pb.Receive(2))
	require.NoError(t, pb.Fail())
	require.Eventually(t, func() bool { return calls.Load() == 2 }, waitTime, tick)
}

func TestWait(t *testing.T) {
	h, p := self(t, softnic.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan error)
	go func() { woken <- h.Done.Wait(ctx) }()
	if h.Soft != nil {
		require.Eventually(t, func() bool { return h.Soft.Counters().Arms > 0 }, waitTime, tick)
	}
	write(t, h, p, 1)
	require.NoError(t, <-woken)
	require.NoError(t, h.Done.Wait(ctx), "still there to be polled")
	pollOnly(t, h.Done, 1)

	go func() { woken <- h.Done.Wait(ctx) }()
	cancel()
	require.ErrorIs(t, <-woken, context.Canceled)
	write(t, h, p, 2)
	if h.Soft != nil { // a kernel's device takes its time
		require.NoError(t, h.Done.Wait(ctx), "what is there comes before the context")
	}
}

// An event wakes everyone who waits.
func TestSeveralWait(t *testing.T) {
	mlx5test.NeedSoft(t)
	h, p := self(t, softnic.Config{})
	woken := make(chan error)
	arms := h.Soft.Counters().Arms
	for i := range uint64(3) {
		// One after the other, since arms at the same time may reach the NIC as one.
		go func() { woken <- h.Done.Wait(t.Context()) }()
		require.Eventually(t, func() bool { return h.Soft.Counters().Arms == arms+i+1 }, waitTime, tick)
	}
	write(t, h, p, 1)
	for range 3 {
		require.NoError(t, <-woken)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := h.Done.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}))
}

// Everyone who waits is woken when the queue closes or the device fails.
func TestWaitEnds(t *testing.T) {
	mlx5test.NeedSoft(t)
	h := mlx5test.NewHost(t, softnic.Config{})
	done, err := cq.New(h.NIC, 8)
	require.NoError(t, err)
	woken := make(chan error)
	arms := h.Soft.Counters().Arms
	go func() { woken <- done.Wait(t.Context()) }()
	require.Eventually(t, func() bool { return h.Soft.Counters().Arms > arms }, waitTime, tick)
	require.NoError(t, done.Close())
	require.ErrorIs(t, <-woken, cq.ErrDestroyed)
	require.NoError(t, done.Close(), "again")
	_, err = done.Poll(make([]cq.Completion, 1))
	require.ErrorIs(t, err, cq.ErrDestroyed)
	require.ErrorIs(t, done.Arm(false), cq.ErrDestroyed)
	require.ErrorIs(t, done.Wait(t.Context()), cq.ErrDestroyed)
	_, err = qp.New(done, qp.Config{Sends: 1})
	require.ErrorIs(t, err, cq.ErrDestroyed)

	arms = h.Soft.Counters().Arms
	failed := make(chan struct{}, 1)
	h.Done.Notify(func() {
		select {
		case failed <- struct{}{}:
		default:
		}
	})
	go func() { woken <- h.Done.Wait(t.Context()) }()
	require.Eventually(t, func() bool { return h.Soft.Counters().Arms > arms }, waitTime, tick)
	h.Soft.Fail()
	require.ErrorIs(t, <-woken, verbs.ErrDeviceFatal)
	<-failed
}

// Who asks for events to be moderated, as ibv_modify_cq does, does not wait for ever for the
// only one.
func TestModerated(t *testing.T) {
	h, p := self(t, softnic.Config{})
	require.NoError(t, h.Done.Moderate(16, 1000))
	waited := make(chan error, 1)
	go func() { waited <- h.Done.Wait(t.Context()) }()
	write(t, h, p, 1)
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(waitTime):
		require.FailNow(t, "no event")
	}
	require.NoError(t, h.Poll(1)[0].Err())
	require.ErrorIs(t, h.Done.Moderate(16, 1<<12), syscall.EINVAL, "more than the device has bits for")
}

// A queue that a completion finds full is lost, and its queue pairs: who waits is told why,
// and so is who listens to events. The NIC's other queues go on.
func TestOverrunEvents(t *testing.T) {
	h, other := self(t, softnic.Config{})
	const size = 16
	done, err := cq.New(h.NIC, size)
	require.NoError(t, err)
	p, err := qp.New(done, qp.Config{Sends: size})
	require.NoError(t, err)
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	for range size { // a NIC asks how far the program is when its queue seems full
		write(t, h, p, 1)
	}
	for c, n := make([]cq.Completion, size), 0; n < size; {
		require.NoError(t, done.Wait(t.Context()))
		k, err := done.Poll(c)
		require.NoError(t, err)
		n += k
	}
	events := make(chan mlx5.Event, 16)
	defer h.NIC.Events(func(e mlx5.Event) { events <- e })()
	told := make(chan struct{}, 16)
	done.Notify(func() { told <- struct{}{} })
	waited := make(chan error, 1)
	go func() { waited <- done.Wait(t.Context()) }()

	done.Exhaust()
	write(t, h, p, 2)
	for _, want := range []mlx5.Event{{Type: verbs.EventCQError}, {Type: verbs.EventQPFatal, QPN: p.Number()}} {
		select {
		case e := <-events:
			require.Equal(t, want, e)
		case <-time.After(waitTime):
			require.FailNow(t, "no event", "%v", want.Type)
		}
	}
	select {
	case err := <-waited:
		require.ErrorIs(t, err, cq.ErrOverrun)
	case <-time.After(waitTime):
		require.FailNow(t, "Wait has not ended")
	}
	select {
	case <-told:
	case <-time.After(waitTime):
		require.FailNow(t, "the function that Notify was given is not called")
	}
	_, err = done.Poll(make([]cq.Completion, 1))
	require.ErrorIs(t, err, cq.ErrOverrun)
	require.ErrorIs(t, done.Arm(false), cq.ErrOverrun)
	require.NoError(t, h.NIC.Err(), "the NIC has not failed")
	write(t, h, other, 3)
	require.NoError(t, h.Poll(1)[0].Err())
	require.NoError(t, p.Destroy())
	require.NoError(t, done.Close())
}

// No function given to Notify runs once Close has returned.
func TestCloseEndsNotify(t *testing.T) {
	h, p := self(t, softnic.Config{})
	_ = p
	for range 50 {
		done, err := cq.New(h.NIC, 64)
		require.NoError(t, err)
		pair, err := qp.New(done, qp.Config{Sends: 16})
		require.NoError(t, err)
		require.NoError(t, pair.Connect(region.RemoteReadWrite, pair.Endpoint()))
		var closed, late atomic.Bool
		done.Notify(func() {
			if closed.Load() {
				late.Store(true)
			}
		})
		require.NoError(t, done.Arm(false))
		write(t, h, pair, 1)
		require.NoError(t, pair.Destroy())
		require.NoError(t, done.Close())
		closed.Store(true)
		h.NIC.Events(func(mlx5.Event) {})()
		require.False(t, late.Load())
	}
}

// Poller, waiter, posters and a Notify function at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	h, p := self(t, softnic.Config{})
	h.Done.Notify(func() {})
	const n = 500
	sent := make(chan error, 2)
	target := h.Target(0)
	for range 2 {
		go func() {
			for id := 0; id < n; {
				err := p.Post(qp.Entry{Op: qp.Write, Inline: []byte("x"), Remote: target, Signaled: true})
				if errors.Is(err, qp.ErrRoom) {
					p.Ring()
					runtime.Gosched() // until the test has polled
					continue
				}
				if err != nil {
					sent <- err
					return
				}
				id++
				if id%3 == 0 {
					p.Ring()
				}
			}
			p.Ring()
			sent <- nil
		}()
	}
	for _, c := range h.Poll(2 * n) {
		require.NoError(t, c.Err())
	}
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
}

func TestNewRefuses(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{Limits: softnic.Limits{CQEntries: 2048}})
	for _, n := range []int{-1, 0, 2049} {
		_, err := cq.New(h.NIC, n)
		require.ErrorContains(t, err, "not in 1..2048")
	}
	create := mlx5test.Command{Write: uapi.CmdCreateCQ}
	h.File.Refuse(create, syscall.ENOMEM, 0)
	_, err := cq.New(h.NIC, 16)
	require.ErrorIs(t, err, verbs.ErrLockedMemory)
	h.File.Refuse(create, 0, 0)
	q, err := cq.New(h.NIC, 2048)
	require.NoError(t, err)
	require.Equal(t, 2048, q.Capacity())
	require.Same(t, h.NIC, q.NIC())
	require.NoError(t, q.Close())
}

func TestNewOnAClosedNIC(t *testing.T) {
	_, file := mlx5test.Open(t, softnic.Config{})
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	require.NoError(t, nic.Close())
	_, err = cq.New(nic, 16)
	require.ErrorIs(t, err, mlx5.ErrClosed)
}

// The smallest queue has two entries, as rdma-core's.
func TestSmallestQueue(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	q, err := cq.New(h.NIC, 1)
	require.NoError(t, err)
	require.Equal(t, 2, q.Capacity())
	require.NoError(t, q.Close())
	create := h.File.Issued(mlx5test.Command{Write: uapi.CmdCreateCQ})
	entries := create[len(create)-1].Core[16:20]
	require.EqualValues(t, 1, binary.NativeEndian.Uint32(entries), "the kernel rounds one more up")
}
