package rxe_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// An armed queue gives one event, at the next completion.
func TestKernelArm(t *testing.T) {
	l := newLine(t, work.Local)
	events := make(chan struct{}, 100)
	l.doneB.Notify(func() { events <- struct{}{} })
	for i := range uint64(5) {
		require.NoError(t, l.b.Receive(i, l.mr.Local(0, 8)))
	}
	send := func(solicited bool) {
		l.post(work.Entry{Op: work.Send, Inline: []byte{1}, Solicited: solicited, Signaled: true})
		one(t, l.doneA)
	}
	took := func() {
		select {
		case <-events:
		case <-time.After(waitTime):
			t.Fatal("no event")
		}
	}
	send(false) // not armed
	require.NoError(t, l.doneB.Arm(false))
	require.NoError(t, l.doneB.Arm(true), "does not narrow the arm before it")
	send(false)
	took()
	send(false) // not armed any more
	require.NoError(t, l.doneB.Arm(true))
	send(false) // not solicited
	send(true)
	took()
	require.Empty(t, events)
	l.doneB.Notify(nil)
	require.Len(t, poll(t, l.doneB, 5), 5)
}

func TestKernelWaitEnds(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.done.Wait(ctx), context.Canceled)
	q, err := rxe.NewQueue(h.nic, 10)
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- q.Wait(t.Context()) }()
	require.NoError(t, q.Close())
	require.ErrorIs(t, <-ended, work.ErrQueueClosed)
	require.NoError(t, q.Close())
	_, err = q.Poll(make([]work.Completion, 1))
	require.ErrorIs(t, err, work.ErrQueueClosed)
	require.ErrorIs(t, q.Arm(false), work.ErrQueueClosed)
	_, err = rxe.NewPair(q, usual)
	require.ErrorIs(t, err, work.ErrQueueClosed)
}

// Nothing is allocated while data moves.
func TestKernelAllocations(t *testing.T) {
	l := newLine(t, work.Local)
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	var c [4]work.Completion
	collect := func(q *rxe.Queue) {
		for {
			if err := q.Wait(ctx); err != nil {
				t.Error(err)
				return
			}
			if n, err := q.Poll(c[:]); n > 0 || err != nil {
				return
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(50, func() {
		if err := l.b.Receive(1, l.mr.Local(half, 100)); err != nil {
			t.Error(err)
		}
		if err := l.a.Post(work.Entry{Op: work.Send, Local: l.mr.Local(0, 100), Signaled: true}); err != nil {
			t.Error(err)
		}
		if err := l.a.Ring(); err != nil {
			t.Error(err)
		}
		collect(l.doneA)
		collect(l.doneB)
	}))
}

// The interface's state is the port's.
func TestKernelPortEvents(t *testing.T) {
	const device, netdev = "rxe8", "d8"
	h := openOn(t, device, netdev, "10.8.0.1/24")
	events := make(chan rxe.Event, 100)
	defer h.Events(func(e rxe.Event) { events <- e })()
	run(t, "ip", "link", "set", netdev, "down")
	for e := range events {
		if e.Type == verbs.EventPortError {
			require.EqualValues(t, 1, e.Port)
			break
		}
	}
	port, err := h.Port()
	require.NoError(t, err)
	require.Equal(t, verbs.PortDown, port.State)
}

// A device that is deleted says so, on kernels that delete one in use; the others wait
// until it is not.
func TestKernelDeletion(t *testing.T) {
	const device, netdev = "rxe9", "d9"
	n := openOn(t, device, netdev, "10.7.0.1/24")
	q := queue(t, n, 64)
	p := pairOn(t, q, usual)
	require.NoError(t, p.Connect(work.Local, p.Endpoint()))
	fatal := make(chan struct{}, 10)
	defer n.Events(func(e rxe.Event) {
		if e.Type == verbs.EventDeviceFatal {
			fatal <- struct{}{}
		}
	})()
	ended := make(chan error, 1)
	go func() { ended <- exec.Command("rdma", "link", "delete", device).Run() }()
	select {
	case <-fatal:
	case <-time.After(2 * time.Second):
		require.NoError(t, p.Destroy())
		require.NoError(t, q.Close())
		require.NoError(t, n.Close())
		require.NoError(t, <-ended)
		t.Skip("this kernel does not delete a device in use")
	}
	require.ErrorIs(t, n.Err(), verbs.ErrDeviceFatal)
	require.ErrorIs(t, q.Wait(t.Context()), verbs.ErrDeviceFatal)
	require.NoError(t, p.Post(work.Entry{Op: work.Send}))
	require.ErrorIs(t, p.Ring(), verbs.ErrDeviceRemoved)
	require.NoError(t, p.Destroy(), "it went with the device")
	require.NoError(t, q.Close())
	require.NoError(t, n.Close())
	require.NoError(t, <-ended)
}

// openOn opens a Soft-RoCE device that is made for the test.
func openOn(t *testing.T, name, netdev, addr string) *rxe.NIC {
	t.Helper()
	device(t) // may this machine be changed?
	run(t, "ip", "link", "add", netdev, "type", "dummy")
	t.Cleanup(func() { run(t, "ip", "link", "delete", netdev) })
	run(t, "ip", "addr", "add", addr, "dev", netdev)
	run(t, "ip", "link", "set", netdev, "up")
	run(t, "rdma", "link", "add", name, "type", "rxe", "netdev", netdev)
	var n *rxe.NIC
	require.Eventually(t, func() bool {
		var err error
		n, err = rxe.Open(name)
		return err == nil
	}, waitTime, 10*time.Millisecond)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func run(t *testing.T, command ...string) {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", command, out)
}
