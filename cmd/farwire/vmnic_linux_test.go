package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestVMNICArguments(t *testing.T) {
	for _, args := range []string{"vm-nic", "vm-nic -socket s -link fc", "vm-nic -socket s more", "vm-nic -socket s -network a -join=b"} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard), "vm-nic: ", args)
	}
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"vm-nic", "-h"}, &out), flag.ErrHelp)
	require.Contains(t, out.String(), "vfio-user-pci")
}

// announce tells of the first line that is written.
type announce struct{ lines chan string }

func (a announce) Write(p []byte) (int, error) {
	a.lines <- string(p)
	return len(p), nil
}

// A machine connects, agrees on a version and goes; the next may come; the command
// ends when it is told to, with a machine there.
func TestVMNICServesMachinesInTurn(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	network := filepath.Join(t.TempDir(), "net.sock")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, done := announce{make(chan string, 1)}, make(chan error, 1)
	go func() { done <- run(ctx, []string{"vm-nic", "-socket", socket, "-network", network}, out) }()
	select {
	case line := <-out.lines:
		require.Contains(t, line, socket)
	case err := <-done:
		t.Fatal(err)
	}
	var last net.Conn
	for range 2 {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		// VERSION 0.1, of a client that says nothing of itself.
		_, err = conn.Write([]byte{1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
		require.NoError(t, err)
		head := make([]byte, 16)
		_, err = io.ReadFull(conn, head)
		require.NoError(t, err)
		require.Equal(t, byte(1), head[8], "a reply")
		if last == nil {
			require.NoError(t, conn.Close())
		}
		last = conn
	}
	cancel()
	require.NoError(t, <-done)
	_, err := io.Copy(io.Discard, last)
	require.True(t, err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed))
	_ = last.Close()
}

// When the network that was joined ends, the port is down, and that is said; no machine
// may come any more, and a network that nobody offers is an error of vm-nic's own.
func TestVMNICNetworkEnds(t *testing.T) {
	network := filepath.Join(t.TempDir(), "net.sock")
	err := run(t.Context(), []string{"vm-nic", "-socket", filepath.Join(t.TempDir(), "s"), "-join=" + network}, io.Discard)
	require.ErrorContains(t, err, "vm-nic: no network")
	require.NotContains(t, err.Error(), "run: ")

	start := func(ctx context.Context, args ...string) (announce, chan error) {
		out, done := announce{make(chan string, 4)}, make(chan error, 1)
		go func() {
			done <- run(ctx, append([]string{"vm-nic", "-socket", filepath.Join(t.TempDir(), "nic.sock")}, args...), out)
		}()
		require.Contains(t, <-out.lines, "waiting at")
		return out, done
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, offered := start(ctx, "-network", network)
	out, joined := start(t.Context(), "-join="+network)
	cancel()
	require.NoError(t, <-offered)
	require.Contains(t, <-out.lines, "the port is down")
	err = <-joined
	require.ErrorIs(t, err, errEnded)
	require.Equal(t, 1, strings.Count(err.Error(), errEnded.Error()))
}

// -join=false is no network of that name.
func TestJoinOff(t *testing.T) {
	s, _, err := parseSettings([]string{"-join=false", "--", "true"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, s.join)
	s, _, err = parseSettings([]string{"-join", "--", "true"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, defaultNetwork, s.join)
}

// A folder that somebody has locked for good does not hold a run up for good.
func TestFolderLocked(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	_, err = networkSocket{path: filepath.Join(dir, "net.sock")}.listen()
	require.ErrorContains(t, err, "is locked")
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
}
