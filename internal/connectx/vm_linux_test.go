package connectx_test

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/connectx"
	"github.com/farwire/farwire/internal/vfiouser"
	"github.com/farwire/farwire/internal/vmtest"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// kernelsVar has the kernels to boot, as for vmrun. They are not without it: it takes a
// minute for each, and downloads.
const kernelsVar = "FARWIRE_VM_KERNELS"

// serve gives the machines that connect to the socket a NIC, one after the other.
func serve(t *testing.T, nic *softnic.NIC, log *slog.Logger) (socket string) {
	socket = filepath.Join(t.TempDir(), "nic.sock")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				done <- nil
				return
			}
			s, err := vfiouser.New(conn.(*net.UnixConn), connectx.Layout())
			if err == nil {
				var d *connectx.Device
				d, err = connectx.New(connectx.Config{NIC: nic, Memory: s.Memory(), Raise: s.Interrupts().Raise, Logger: log})
				if err == nil {
					err = errors.Join(s.Serve(d), d.Close())
				}
			}
			if err != nil {
				log.Warn("machine", "error", err)
			}
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return socket
}

// machines are what tests of virtual machines share.
type machines struct {
	cache, qemu, userland string
	log                   slog.Level
}

// newMachines fetches what machines need, and the kernels that kernelsVar names. It skips
// the test where that names none.
func newMachines(t *testing.T) (m machines, kernels []vmtest.Kernel) {
	names := os.Getenv(kernelsVar)
	if names == "" {
		t.Skip(kernelsVar + " names no kernels: all, or some of them")
	}
	if os.Getenv("FARWIRE_VM_DEBUG") != "" {
		m.log = slog.LevelDebug
	}
	var err error
	m.cache, err = vmtest.CacheDir()
	require.NoError(t, err)
	kernels, err = vmtest.FindKernels(names)
	require.NoError(t, err)
	m.qemu, err = vmtest.FetchQEMU(t.Context(), m.cache)
	require.NoError(t, err)
	m.userland, err = vmtest.FetchUserland(t.Context(), m.cache)
	require.NoError(t, err)
	return m, kernels
}

// nics are software NICs, as farwire vm-nic has them.
var nics = map[string]softnic.Config{
	"ib":  {LinkLayer: verbs.LinkInfiniBand},
	"eth": {LinkLayer: verbs.LinkEthernet, RoCEv2Only: true, Unaddressed: true},
}

// The kernel's own drivers take the device for a ConnectX, and unmodified programs
// on rdma-core use it.
func TestKernelDrivers(t *testing.T) {
	m, kernels := newMachines(t)
	for _, k := range kernels {
		for _, link := range []string{"ib", "eth"} {
			t.Run(k.Name+"/"+link, func(t *testing.T) { m.runPrograms(t, k, link) })
		}
	}
}

func (m machines) runPrograms(t *testing.T, k vmtest.Kernel, link string) {
	m.run(t, k, link, nil, vmtest.Job{Name: link, Program: "testdata/programs.sh", Timeout: 10 * time.Minute})
}

// run runs a job in a machine with a NIC, which fails once it is used, if that is a
// function.
func (m machines) run(t *testing.T, k vmtest.Kernel, link string, used func(softnic.Counters) bool, job vmtest.Job) {
	image, err := vmtest.Fetch(t.Context(), m.cache, k)
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: m.log}))
	cfg := nics[link]
	cfg.Name, cfg.Link, cfg.Network, cfg.Logger = "mlx5_0", softnic.LinkMemory, softnic.NewNetwork(), log
	nic, err := softnic.New(&cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, nic.Close()) }()
	if used != nil {
		stop := failOnce(nic, used)
		defer stop()
	}
	socket := serve(t, nic, log)
	results, err := vmtest.Run(t.Context(), vmtest.Config{
		Kernel: image, Userland: m.userland, QEMU: m.qemu, Modules: []string{"ib_umad", "mlx5_ib"}, CPUs: 1,
		Env:     []string{"LINK=" + link},
		Jobs:    []vmtest.Job{job},
		Devices: []string{socket},
		Console: t.Output(),
	})
	require.NoError(t, err)
	for _, r := range results {
		t.Logf("%s: status %d, %v\n%s", r.Name, r.Status, r.Err, r.Output)
		require.True(t, r.OK(), r.Name)
	}
}

// failOnce has the NIC fail as soon as it is used.
func failOnce(nic *softnic.NIC, used func(softnic.Counters) bool) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
				if used(nic.Counters()) {
					nic.Fail()
					return
				}
			}
		}
	}()
	return func() { close(over); <-ended }
}

// The card fails while a program in the machine uses it: the kernel's driver finds that out
// for itself.
func TestKernelDeviceFails(t *testing.T) {
	m, kernels := newMachines(t)
	program := filepath.Join(t.TempDir(), "mlx5.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "github.com/farwire/farwire/rdma/mlx5")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, k := range kernels {
		t.Run(k.Name, func(t *testing.T) {
			used := func(c softnic.Counters) bool { return c.Completions > 100 }
			m.run(t, k, "ib", used, vmtest.Job{Name: "failure", Program: program, Timeout: 5 * time.Minute,
				Args: []string{"-test.v", "-test.run=^TestKernelFailure$"}, Env: []string{"FARWIRE_MLX5=mlx5_0", "FARWIRE_MLX5_FAILS=1"}})
		})
	}
}
