package mlx5_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/vmtest/plan"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// The port goes down and comes up with the kernel's interface. Who listens is told, what is
// posted meanwhile fails once the retries are used up, and the NIC stays open.
func TestKernelPortEvents(t *testing.T) {
	mlx5test.NeedKernel(t)
	name := os.Getenv(mlx5test.DeviceEnv)
	interfaces, err := filepath.Glob("/sys/class/infiniband/" + name + "/device/net/*")
	require.NoError(t, err)
	if len(interfaces) == 0 {
		t.Skip("an InfiniBand port has no interface to take down")
	}
	nic, err := mlx5.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, nic.Close()) }()
	mr, err := region.Alloc(nic, region.RemoteReadWrite, 4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	done := completions(t, nic)
	defer func() { require.NoError(t, done.Close()) }()
	pair := looped(t, done)
	defer func() { require.NoError(t, pair.Destroy()) }()
	events := make(chan mlx5.Event, 64)
	defer nic.Events(func(e mlx5.Event) { events <- e })()
	await := func(want verbs.EventType, state verbs.PortState) {
		t.Helper()
		for {
			if e := within(t, events, want.String()); e.Type == want {
				require.EqualValues(t, 1, e.Port)
				break
			}
		}
		require.Eventually(t, func() bool {
			port, err := nic.Port()
			require.NoError(t, err)
			return port.State == state
		}, patience, 10*time.Millisecond)
	}

	run(t, "ip", "link", "set", filepath.Base(interfaces[0]), "down")
	await(verbs.EventPortError, verbs.PortDown)
	target, err := mr.Remote(0)
	require.NoError(t, err)
	require.NoError(t, pair.Post(qp.Entry{Op: qp.Write, Local: mr.Local(0, 8), Remote: target, Signaled: true}))
	pair.Ring()
	waited := make(chan error, 1)
	go func() { waited <- done.Wait(t.Context()) }()
	require.NoError(t, within(t, waited, "the completion"))
	var c [1]cq.Completion
	_, err = done.Poll(c[:])
	require.NoError(t, err)
	require.Equal(t, verbs.RetryExceeded, c[0].Status)

	run(t, "/bin/sh", "-eu", plan.SetupFile)
	await(verbs.EventPortActive, verbs.PortActive)
	requireWorks(t, nic)
}

func run(t *testing.T, command ...string) {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", command, out)
}
