package connectx_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

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

// The kernel's own drivers take the device for a ConnectX, and unmodified programs
// on rdma-core use it.
func TestKernelDrivers(t *testing.T) {
	names := os.Getenv(kernelsVar)
	if names == "" {
		t.Skip(kernelsVar + " names no kernels: all, or some of them")
	}
	ctx := context.Background()
	cache, err := vmtest.CacheDir()
	require.NoError(t, err)
	kernels, err := vmtest.FindKernels(names)
	require.NoError(t, err)
	qemu, err := vmtest.FetchQEMU(ctx, cache)
	require.NoError(t, err)
	userland, err := vmtest.FetchUserland(ctx, cache)
	require.NoError(t, err)
	level := slog.LevelInfo
	if os.Getenv("FARWIRE_VM_DEBUG") != "" {
		level = slog.LevelDebug
	}
	for _, k := range kernels {
		t.Run(k.Name, func(t *testing.T) {
			image, err := vmtest.Fetch(ctx, cache, k)
			require.NoError(t, err)
			log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
			nic, err := softnic.New(&softnic.Config{Name: "mlx5_0", LinkLayer: verbs.LinkInfiniBand, Link: softnic.LinkMemory,
				Network: softnic.NewNetwork(), Logger: log})
			require.NoError(t, err)
			defer func() { require.NoError(t, nic.Close()) }()
			socket := serve(t, nic, log)
			results, err := vmtest.Run(ctx, vmtest.Config{
				Kernel: image, Userland: userland, QEMU: qemu, Modules: []string{"ib_umad", "mlx5_ib"}, CPUs: 1,
				Jobs:    []vmtest.Job{{Name: "ib", Program: "testdata/ib.sh"}},
				Devices: []string{socket},
				Console: t.Output(),
			})
			require.NoError(t, err)
			for _, r := range results {
				t.Logf("%s: status %d, %v\n%s", r.Name, r.Status, r.Err, r.Output)
				require.True(t, r.OK(), r.Name)
			}
		})
	}
}
