package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/vmtest"
)

// kernelsVar has the kernels of virtual machines, as for vmrun. None are booted without
// it: it takes a minute for each, and downloads.
const kernelsVar = "FARWIRE_VM_KERNELS"

// Two virtual machines with a card each, and a program of farwire run on this machine,
// are in one network: unmodified programs on the kernel's own drivers reach each other.
func TestVMNICGuestsTalk(t *testing.T) {
	for _, k := range guestKernels(t) {
		need(t, "ibv_rc_pingpong")
		for _, link := range []string{"ib", "eth"} {
			t.Run(k.Name+"/"+link, func(t *testing.T) { guestsTalk(t, k, link) })
		}
	}
}

func guestsTalk(t *testing.T, k vmtest.Kernel, link string) {
	dir, port, echoPort := t.TempDir(), freePort(t), freePort(t)
	network := filepath.Join(dir, "net")
	first := startVMNIC(t, "-socket", filepath.Join(dir, "1"), "-link", link, "-network", network)
	second := startVMNIC(t, "-socket", filepath.Join(dir, "2"), "-link", link, "-join="+network)
	echo := filepath.Join(dir, "echo")
	build := exec.Command("go", "build", "-o", echo, "github.com/farwire/farwire/examples/echo")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	ctx, cancel := context.WithCancel(t.Context())
	server := make(chan error, 1)
	go func() {
		defer close(server)
		server <- runGuest(ctx, t, k, vmtest.Config{
			Devices: []string{first}, QEMUArgs: onHost(port, echoPort),
			Env: []string{"ROLE=server", "LINK=" + link, "NUMBER=1"},
		}, "guest.sh", echo)
	}()
	defer func() { cancel(); <-server }()
	require.NoError(t, runGuest(ctx, t, k, vmtest.Config{
		Devices: []string{second}, QEMUArgs: onHost(),
		Env: []string{"ROLE=client", "LINK=" + link, "NUMBER=2", "PORT=" + port, "ECHO=" + echoPort},
	}, "guest.sh", echo))

	here := []string{"-link=ib", "-join=" + network, "--"}
	gid := []string{}
	if link == "eth" {
		here, gid = []string{"-nic=addr=10.9.0.3", "-join=" + network, "--"}, []string{"-g", "1"}
	}
	ours := append(here[:len(here):len(here)], "env", "FARWIRE_DEVICE=mlx5_0", echo, "-n", "50", "-dial", "127.0.0.1:"+echoPort)
	require.Contains(t, eventuallyRuns(t, ours...), "65536        50")
	theirs := append(append(here, "ibv_rc_pingpong", "-c", "-n", "50", "-p", port), append(gid, "127.0.0.1")...)
	require.Contains(t, eventuallyRuns(t, theirs...), "50 iters in")
	require.NoError(t, <-server)
}

// A virtual machine with two cards: its programs use both.
func TestVMNICTwoCards(t *testing.T) {
	for _, k := range guestKernels(t) {
		t.Run(k.Name, func(t *testing.T) {
			dir := t.TempDir()
			network := filepath.Join(dir, "net")
			first := startVMNIC(t, "-socket", filepath.Join(dir, "1"), "-network", network)
			second := startVMNIC(t, "-socket", filepath.Join(dir, "2"), "-join="+network)
			require.NoError(t, runGuest(t.Context(), t, k, vmtest.Config{Devices: []string{first, second}}, "cards.sh"))
		})
	}
}

// guestKernels are those that kernelsVar names. It skips the test where that names none.
func guestKernels(t *testing.T) []vmtest.Kernel {
	names := os.Getenv(kernelsVar)
	if names == "" {
		t.Skip(kernelsVar + " names no kernels: all, or some of them")
	}
	kernels, err := vmtest.FindKernels(names)
	require.NoError(t, err)
	return kernels
}

// startVMNIC runs vm-nic until the test has ended, and returns its socket, args[1].
func startVMNIC(t *testing.T, args ...string) (socket string) {
	ctx, cancel := context.WithCancel(t.Context())
	out, done := announce{make(chan string, 4)}, make(chan error, 1)
	go func() {
		defer close(done)
		done <- run(ctx, append([]string{"vm-nic"}, args...), out)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	select {
	case line := <-out.lines:
		require.Contains(t, line, "waiting at")
	case err := <-done:
		t.Fatal(err)
	}
	return args[1]
}

// runGuest boots a machine with the cards of cfg, and runs a script of testdata in it, with
// files beside it.
func runGuest(ctx context.Context, t *testing.T, k vmtest.Kernel, cfg vmtest.Config, script string, files ...string) error {
	cache, err := vmtest.CacheDir()
	if err != nil {
		return err
	}
	if cfg.Kernel, err = vmtest.Fetch(ctx, cache, k); err != nil {
		return err
	}
	if cfg.QEMU, err = vmtest.FetchQEMU(ctx, cache); err != nil {
		return err
	}
	if cfg.Userland, err = vmtest.FetchUserland(ctx, cache); err != nil {
		return err
	}
	cfg.CPUs, cfg.Memory, cfg.Modules = 1, 512, []string{"e1000", "mlx5_ib"}
	cfg.Jobs = []vmtest.Job{{Name: script, Program: filepath.Join("testdata", script), Files: files, Timeout: 5 * time.Minute}}
	results, err := vmtest.Run(ctx, cfg)
	for _, r := range results {
		t.Logf("%s %v: status %d, %v\n%s", r.Name, cfg.Env, r.Status, r.Err, r.Output)
		if err == nil && !r.OK() {
			err = fmt.Errorf("guest: %s failed", r.Name)
		}
	}
	return err
}

// onHost is a network card of a machine by whose address 10.0.2.2 it reaches ports of this
// one. The ports of this machine that are given lead to the machine's 18515 and on.
func onHost(ports ...string) []string {
	network := "user,id=n0"
	for i, p := range ports {
		network += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%s-:%d", p, 18515+i)
	}
	return []string{"-netdev", network, "-device", "e1000,netdev=n0,romfile="}
}
