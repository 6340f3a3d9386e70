package device_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func TestMain(m *testing.M) { mlx5test.Main(m) }

func write(cmd uint32) mlx5test.Command { return mlx5test.Command{Write: cmd} }

// Whatever step of opening fails, the file is closed and nothing is left.
func TestOpenFails(t *testing.T) {
	uar := mlx5test.Command{Object: prm.ObjectUAR, Method: prm.MethodUARAlloc}
	for name, test := range map[string]struct {
		config softnic.Config
		refuse func(f *mlx5test.File)
	}{
		"context": {refuse: func(f *mlx5test.File) {
			f.Refuse(mlx5test.Command{Object: 0, Method: uapi.MethodGetContext}, syscall.EMFILE, 0)
		}},
		"async events": {refuse: func(f *mlx5test.File) { f.RefuseEvents(syscall.EMFILE) }},
		"limits":       {refuse: func(f *mlx5test.File) { f.Refuse(write(uapi.CmdQueryDevice), syscall.EMFILE, 0) }},
		"page":         {refuse: func(f *mlx5test.File) { f.Refuse(uar, syscall.EMFILE, 0) }},
		"mapping":      {refuse: func(f *mlx5test.File) { f.RefuseMap(syscall.EMFILE) }},
		"static mapping": {config: softnic.Config{StaticUAR: true},
			refuse: func(f *mlx5test.File) { f.RefuseMap(syscall.EMFILE) }},
		"domain":  {refuse: func(f *mlx5test.File) { f.Refuse(write(uapi.CmdAllocPD), syscall.EMFILE, 0) }},
		"channel": {refuse: func(f *mlx5test.File) { f.Refuse(write(uapi.CmdCreateCompChannel), syscall.EMFILE, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			soft, file := mlx5test.Open(t, test.config)
			test.refuse(file)
			_, err := device.Open(file)
			require.ErrorIs(t, err, syscall.EMFILE)
			c := soft.Counters()
			require.Zero(t, c.Contexts+c.PDs+c.EventFiles+c.UARs)
			require.Error(t, file.Close(), "it is closed already")
		})
	}
}

func open(t *testing.T, c softnic.Config) (*softnic.NIC, *mlx5test.File, *device.Device) {
	t.Helper()
	soft, file := mlx5test.Open(t, c)
	d, err := device.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return soft, file, d
}

// What the kernel is asked for, byte for byte as rdma-core's libmlx5 44 asks (but
// for the flag of its raw command interface).
func TestContextRequest(t *testing.T) {
	_, file, _ := open(t, softnic.Config{})
	got := file.Issued(mlx5test.Command{Object: uapi.ObjectDevice, Method: uapi.MethodGetContext})
	require.Equal(t, "1000000004000000000000000000000001000000000000000300000000000000", fmt.Sprintf("%x", got[0].Driver))
}

func TestCloseWaitsForObjects(t *testing.T) {
	soft, _, d := open(t, softnic.Config{})
	object := new(int)
	require.NoError(t, d.Hold(object))
	require.ErrorIs(t, d.Close(), nic.ErrBusy)
	require.Equal(t, 1, soft.Counters().Contexts, "nothing happened")
	d.Drop(object)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "again")
	require.ErrorIs(t, d.Hold(object), nic.ErrClosed)
	c := soft.Counters()
	require.Zero(t, c.Contexts+c.PDs+c.EventFiles+c.UARs)
}

func TestKeptMemoryIsFreedByClose(t *testing.T) {
	_, _, d := open(t, softnic.Config{})
	mem, err := hostmem.Alloc(100)
	require.NoError(t, err)
	before, _ := hostmem.Live()
	d.Keep(mem, nil)
	d.Keep(nil, "object")
	require.NoError(t, d.Close())
	after, _ := hostmem.Live()
	require.Less(t, after, before)
}

// The kernel's refusals while closing are told, except of what goes with the file.
func TestCloseIsRefused(t *testing.T) {
	soft, file, d := open(t, softnic.Config{})
	file.Refuse(write(uapi.CmdDeallocPD), syscall.EPERM, 0)
	free := mlx5test.Command{Object: prm.ObjectUAR, Method: prm.MethodUARDestroy}
	file.Refuse(free, syscall.EINVAL, 0)
	err := d.Close()
	require.ErrorIs(t, err, syscall.EPERM)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Zero(t, soft.Counters().Contexts)
}

type owner struct{ events, failures, overruns atomic.Int32 }

func (o *owner) Completed() { o.events.Add(1) }

func (o *owner) Failed(overrun bool) {
	if overrun {
		o.overruns.Add(1)
	} else {
		o.failures.Add(1)
	}
}

// queue is a completion queue of 8 entries.
func queue(t *testing.T, d *device.Device, o nic.CQOwner) (device.CQ, *device.Record, *hostmem.Memory) {
	t.Helper()
	mem, err := hostmem.Alloc(8 * prm.CQESize)
	require.NoError(t, err)
	for i := range 8 {
		mem.Bytes()[i*prm.CQESize+63] = prm.CQEFresh
	}
	t.Cleanup(func() { require.NoError(t, mem.Free()) })
	record, err := d.NewRecord()
	require.NoError(t, err)
	q, err := d.CreateCQ(mem.Addr(), record.Addr, 8, o)
	require.NoError(t, err)
	return q, record, mem
}

func TestEvents(t *testing.T) {
	soft, _, d := open(t, softnic.Config{})
	var o owner
	q, _, _ := queue(t, d, &o)
	seen := make(chan nic.Event, 16)
	stop := d.Subscribe(func(e nic.Event) { seen <- e })
	other := d.Subscribe(func(nic.Event) { t.Error("called after it was stopped") })
	other()

	soft.SetPort(false)
	require.Equal(t, nic.Event{Type: verbs.EventPortError, Port: 1}, <-seen)
	soft.SetPort(true)
	require.Equal(t, nic.Event{Type: verbs.EventPortActive, Port: 1}, <-seen)

	require.NoError(t, d.Failure())
	soft.Fail()
	require.Equal(t, nic.Event{Type: verbs.EventDeviceFatal}, <-seen)
	require.ErrorIs(t, d.Failure(), verbs.ErrDeviceFatal)
	require.EqualValues(t, 1, o.failures.Load())
	require.NoError(t, d.DestroyCQ(q), "it went with the device")
	stop()
	require.Never(t, func() bool { return o.failures.Load() > 1 }, 20*time.Millisecond, time.Millisecond)
	require.Empty(t, seen, "said once")
}

// A command may meet the removal before its event is read. Firmware that answers
// in the same words is another matter.
func TestRemovalBeforeItsEvent(t *testing.T) {
	_, file, d := open(t, softnic.Config{})
	destroy, query := write(uapi.CmdDestroyCQ), write(uapi.CmdQueryDevice)
	q, _, _ := queue(t, d, &owner{})
	file.Refuse(destroy, syscall.EIO, 0)
	require.ErrorIs(t, d.DestroyCQ(q), syscall.EIO)
	file.Refuse(query, syscall.EIO, 0)
	require.NoError(t, d.DestroyCQ(q))
	require.NoError(t, d.Failure(), "that is for the event to say")
	file.Refuse(destroy, syscall.EBUSY, 0)
	require.ErrorIs(t, d.DestroyCQ(q), syscall.EBUSY)
	file.Refuse(query, 0, 0)
	file.Refuse(destroy, 0, 0)
	require.NoError(t, d.DestroyCQ(q))
}

// Removal of a device that said nothing is noticed all the same.
func TestEventsEnd(t *testing.T) {
	for name, c := range map[string]softnic.Config{"removed": {}} {
		t.Run(name, func(t *testing.T) {
			soft, _, d := open(t, c)
			seen := make(chan nic.Event, 16)
			defer d.Subscribe(func(e nic.Event) { seen <- e })()
			require.NoError(t, soft.Close())
			require.Equal(t, nic.Event{Type: verbs.EventDeviceFatal}, <-seen)
			require.ErrorIs(t, d.Failure(), verbs.ErrDeviceFatal)
		})
	}
}

// files whose event records are broken.
type brokenEvents struct {
	verbs.File
	n int // which of the event files
}

type shortFile struct{ verbs.EventFile }

func (s shortFile) Read(p []byte) (int, error) { return 3, nil }

func (b *brokenEvents) Events(fd int) (verbs.EventFile, error) {
	e, err := b.File.Events(fd)
	b.n--
	if b.n == 0 && err == nil {
		return shortFile{e}, nil
	}
	return e, err
}

func TestBrokenEventRecords(t *testing.T) {
	for n := range 2 {
		_, file := mlx5test.Open(t, softnic.Config{})
		d, err := device.Open(&brokenEvents{file, n + 1})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return errors.Is(d.Failure(), verbs.ErrDeviceFatal) }, 10*time.Second, time.Millisecond)
		require.NoError(t, d.Close())
	}
}
