package mlx5_test

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/vmtest/slot"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// The kernel takes the device away from under a program that waits for it, and from under
// one that rings its doorbells. Every call ends, nothing that has become of no use harms, and
// once the device is back it is as before.
func TestKernelRemoval(t *testing.T) {
	mlx5test.NeedKernel(t)
	for _, way := range slot.Ways {
		t.Run(way.Name, func(t *testing.T) {
			before := held(t)
			testRemoval(t, way)
			require.Equal(t, before, held(t), "something is left")
		})
	}
}

func testRemoval(t *testing.T, way slot.Way) {
	name := os.Getenv(mlx5test.DeviceEnv)
	u := newInUse(t, name)
	back := way.Take(t, name)
	u.ends(t)
	requireGone(t, u.nic, u.busy, u.unconnected)
	_, err := mlx5.Open(name)
	require.ErrorIs(t, err, mlx5.ErrNoDevice)

	back()
	again, err := mlx5.Open(name)
	require.NoError(t, err, "the old one is still open")
	requireWorks(t, again)
	require.NoError(t, again.Close())
	require.ErrorIs(t, u.nic.Err(), verbs.ErrDeviceFatal, "that is another device")
	requireGone(t, u.nic, u.busy, u.unconnected)
	u.close(t)
}

// The card fails, which the kernel's driver finds in its registers. For a program it is as
// if it had been removed.
func TestKernelFailure(t *testing.T) {
	mlx5test.NeedKernel(t)
	if os.Getenv(failsEnv) == "" {
		t.Skip(failsEnv + " is not set: the card does not fail")
	}
	before := held(t)
	u := newInUse(t, os.Getenv(mlx5test.DeviceEnv))
	u.ends(t)
	u.close(t)
	require.Equal(t, before, held(t), "something is left")
}

// failsEnv is set where the card fails once it is used: make vm-mlx5.
const failsEnv = "FARWIRE_MLX5_FAILS"

// inUse is a device in use.
type inUse struct {
	nic         *mlx5.NIC
	mr          *region.Region
	busy, idle  *cq.Queue
	pair        *qp.Pair
	unconnected *qp.Pair

	entry qp.Entry
	ended chan error    // of those who use it
	told  chan struct{} // from Notify
	fatal atomic.Int32
}

// newInUse opens the device. A goroutine writes without waiting, and two wait for
// completions.
func newInUse(t *testing.T, name string) *inUse {
	t.Helper()
	nic, err := mlx5.Open(name)
	require.NoError(t, err)
	u := &inUse{nic: nic, busy: completions(t, nic), idle: completions(t, nic), ended: make(chan error, 3), told: make(chan struct{}, 1)}
	u.mr, err = region.Alloc(nic, region.RemoteReadWrite, 1<<16)
	require.NoError(t, err)
	u.pair = looped(t, u.busy)
	u.unconnected, err = qp.New(u.idle, qp.Config{Sends: 4, Receives: 4})
	require.NoError(t, err)
	nic.Events(func(e mlx5.Event) {
		if e.Type == verbs.EventDeviceFatal {
			u.fatal.Add(1)
		}
	})
	u.idle.Notify(func() {
		if nic.Err() != nil {
			select {
			case u.told <- struct{}{}:
			default:
			}
		}
	})
	target, err := u.mr.Remote(0)
	require.NoError(t, err)
	u.entry = qp.Entry{Op: qp.Write, Local: u.mr.Local(4096, 64), Remote: target, Signaled: true}
	for range 2 {
		go func() { u.ended <- u.idle.Wait(t.Context()) }()
	}
	var written atomic.Int64
	go func() { u.ended <- writeUntilError(t, u.busy, u.pair, u.entry, &written) }()
	require.Eventually(t, func() bool { return written.Load() > 10 }, patience, time.Millisecond, "nothing is written")
	return u
}

// ends waits until everybody has been told that the device is gone.
func (u *inUse) ends(t *testing.T) {
	t.Helper()
	for range cap(u.ended) {
		require.ErrorIs(t, within(t, u.ended, "a call that waits for the device"), verbs.ErrDeviceFatal)
	}
	within(t, u.told, "the function that Notify was given")
	require.Eventually(t, func() bool { return u.fatal.Load() == 1 }, patience, time.Millisecond, "no event")

	// Doorbells of a device that is gone ring in memory that nobody looks at.
	for range 100 {
		err := u.pair.Post(u.entry)
		if errors.Is(err, qp.ErrRoom) {
			break
		}
		require.NoError(t, err)
		u.pair.Ring()
	}
}

func (u *inUse) close(t *testing.T) {
	t.Helper()
	for _, end := range []func() error{u.pair.Destroy, u.unconnected.Destroy, u.busy.Close, u.idle.Close, u.mr.Close, u.nic.Close} {
		require.NoError(t, end(), "it went with the device")
	}
	require.EqualValues(t, 1, u.fatal.Load(), "of several that the kernel may tell")
}

// requireGone checks what a device that is gone answers.
func requireGone(t *testing.T, nic *mlx5.NIC, done *cq.Queue, unconnected *qp.Pair) {
	t.Helper()
	require.ErrorIs(t, nic.Err(), verbs.ErrDeviceFatal)
	for name, do := range map[string]func() error{
		"poll": func() error { _, err := done.Poll(make([]cq.Completion, 1)); return err },
		"wait": func() error { return done.Wait(t.Context()) },
		"arm":  func() error { return done.Arm(false) },
	} {
		require.ErrorIs(t, do(), verbs.ErrDeviceFatal, name)
	}
	for name, do := range map[string]func() error{
		"port":    func() error { _, err := nic.Port(); return err },
		"GIDs":    func() error { _, err := nic.GIDs(); return err },
		"region":  func() error { _, err := region.Alloc(nic, region.Local, 1); return err },
		"queue":   func() error { _, err := cq.New(nic, 1); return err },
		"pair":    func() error { _, err := qp.New(done, qp.Config{Sends: 1}); return err },
		"connect": func() error { return unconnected.Connect(region.Local, unconnected.Endpoint()) },
	} {
		require.ErrorIs(t, do(), verbs.ErrDeviceRemoved, name)
	}
}

// requireWorks writes something.
func requireWorks(t *testing.T, nic *mlx5.NIC) {
	t.Helper()
	mr, err := region.Alloc(nic, region.RemoteReadWrite, 4096)
	require.NoError(t, err)
	done := completions(t, nic)
	pair := looped(t, done)
	target, err := mr.Remote(100)
	require.NoError(t, err)
	copy(mr.Bytes(), "again")
	require.NoError(t, pair.Post(qp.Entry{Op: qp.Write, Local: mr.Local(0, 5), Remote: target, Signaled: true}))
	pair.Ring()
	waited := make(chan error, 1)
	go func() { waited <- done.Wait(t.Context()) }()
	require.NoError(t, within(t, waited, "the completion"))
	var c [1]cq.Completion
	_, err = done.Poll(c[:])
	require.NoError(t, err)
	require.NoError(t, c[0].Err())
	require.Equal(t, "again", string(mr.Bytes()[100:105]))
	for _, end := range []func() error{pair.Destroy, done.Close, mr.Close} {
		require.NoError(t, end())
	}
}

// writeUntilError keeps a queue pair busy, without ever waiting, until its completion
// queue fails.
func writeUntilError(t *testing.T, done *cq.Queue, pair *qp.Pair, e qp.Entry, written *atomic.Int64) error {
	var c [16]cq.Completion
	for t.Context().Err() == nil {
		if pair.Room(qp.Sends) > 0 {
			if err := pair.Post(e); err != nil {
				return err
			}
			pair.Ring()
		}
		n, err := done.Poll(c[:])
		if err != nil {
			return err
		}
		for i := range n {
			if err := c[i].Err(); err == nil {
				written.Add(1)
			}
		}
	}
	return t.Context().Err()
}

func completions(t *testing.T, nic *mlx5.NIC) *cq.Queue {
	t.Helper()
	q, err := cq.New(nic, 64)
	require.NoError(t, err)
	return q
}

// looped is a queue pair that is connected to itself.
func looped(t *testing.T, done *cq.Queue) *qp.Pair {
	t.Helper()
	p, err := qp.New(done, qp.Config{Sends: 16, Receives: 4})
	require.NoError(t, err)
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	return p
}

// patience is what something may take that needs no more than its turn.
const patience = time.Minute

func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, what+" has not come")
		panic("unreachable")
	}
}

// held is what the process has open of devices, and mapped.
func held(t *testing.T) (h struct{ files, pages, memories int }) {
	t.Helper()
	links, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, l := range links {
		to, err := os.Readlink("/proc/self/fd/" + l.Name())
		if err == nil && (strings.Contains(to, "infiniband") || strings.Contains(to, "uverbs")) {
			h.files++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	h.pages = strings.Count(string(maps), "uverbs")
	h.memories, _ = hostmem.Live()
	return h
}
