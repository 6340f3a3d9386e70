package verbs

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKernelRemoval removes a device that is in use.
func TestKernelRemoval(t *testing.T) {
	d := newLink(t)
	o := newKernelObjects(t, d)
	o.connect(t, gidOf(t, d.Ports[0], "10.77.0.1"))
	completion, async := readAll(o.channel), readAll(o.c.Async())
	removed := make(chan error, 1)
	go func() { removed <- exec.Command("rdma", "link", "delete", "rxet").Run() }()
	require.Eventually(t, func() bool { _, there := deviceNamed(t, "rxet"); return !there }, patience, 50*time.Millisecond)
	_, err := d.Open()
	require.ErrorContains(t, err, "open /dev/infiniband/"+d.UverbsName)

	if !disassociates(t) {
		// The removal waits for us; until then all goes on.
		require.NoError(t, o.c.ModifyQP(o.qp.Handle, QPAttr{State: StateErr}, MaskState))
		o.close(t)
		require.ErrorIs(t, (<-completion).err, os.ErrClosed)
		require.ErrorIs(t, (<-async).err, os.ErrClosed)
		require.NoError(t, <-removed)
		return
	}
	require.NoError(t, <-removed)
	got := <-completion
	require.ErrorIs(t, got.err, syscall.EIO)
	require.Empty(t, got.records)
	requireGone(t, o)
	o.close(t)
	// The asynchronous events told of it, and went on waiting.
	got = <-async
	require.ErrorIs(t, got.err, os.ErrClosed)
	require.NotEmpty(t, got.records)
	last, err := ParseEvent(got.records[len(got.records)-1])
	require.NoError(t, err)
	require.Equal(t, Event{Type: EventDeviceFatal}, last)
}

// requireGone checks what commands answer when the device is gone. TestFatal of the
// software NIC expects the same.
func requireGone(t *testing.T, o *kernelObjects) {
	t.Helper()
	for name, do := range map[string]func() error{
		"query":   func() error { _, _, err := o.c.QueryQP(o.qp.Handle, MaskState); return err },
		"port":    func() error { _, err := o.c.QueryPort(1); return err },
		"GIDs":    func() error { _, err := o.c.GIDs(1); return err },
		"arm":     func() error { return o.c.ReqNotifyCQ(o.cq.Handle, false) },
		"modify":  func() error { return o.c.ModifyQP(o.qp.Handle, QPAttr{State: StateErr}, MaskState) },
		"domain":  func() error { _, err := o.c.AllocPD(nil); return err },
		"channel": func() error { _, err := o.c.CreateCompChannel(); return err },
		"map":     func() error { _, err := o.c.Map(0, hostmem.PageSize()); return err },
	} {
		err := do()
		require.ErrorIs(t, err, ErrDeviceRemoved, name)
		require.ErrorContains(t, err, "the device was removed")
	}
	id, err := ProbeDriver(o.c.file, DriverMLX5, DriverRXE)
	require.NoError(t, err, "the form of a command is judged first")
	require.Equal(t, DriverRXE, id)
	require.ErrorIs(t, o.c.Invoke("nothing", 99, 1), syscall.EPROTONOSUPPORT)

	// The handles are there, to be destroyed once, in any order.
	destroy := []func() error{
		func() error { return o.c.DeallocPD(o.pd) },
		func() error { _, _, err := o.c.DestroyCQ(o.cq.Handle); return err },
		func() error { return o.c.DeregMR(o.mr.Handle) },
		func() error { _, err := o.c.DestroyQP(o.qp.Handle); return err },
	}
	for i, do := range destroy {
		require.NoError(t, do(), i)
		require.ErrorIs(t, do(), syscall.ENOENT, i)
	}
}

// records is what an event file gave until it failed.
type records struct {
	records [][]byte
	err     error
}

func readAll(f EventFile) <-chan records {
	done := make(chan records, 1)
	go func() {
		var all records
		b := make([]byte, 64)
		for {
			n, err := f.Read(b)
			if err != nil {
				all.err = err
				done <- all
				return
			}
			all.records = append(all.records, append([]byte(nil), b[:n]...))
		}
	}()
	return done
}

// disassociates says whether this kernel takes a Soft-RoCE device away from who
// uses it. Linux 7.3 does; 6.12 waits until it is closed.
func disassociates(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	major, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	n, err := strconv.Atoi(major)
	require.NoError(t, err)
	return n >= 7
}
