package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
)

// otherRun is a run in a process of its own, which offers a network or has joined one.
type otherRun struct {
	*exec.Cmd
	said output
}

func startRun(t *testing.T, args ...string) *otherRun {
	needHost(t)
	r := &otherRun{Cmd: exec.Command("/proc/self/exe", append([]string{"run"}, args...)...)}
	r.Env = append(os.Environ(), asTool+"=1")
	r.Stdout, r.Stderr = &r.said, &r.said
	r.WaitDelay = bound // a program that outlives its run has its output
	require.NoError(t, r.Start())
	t.Cleanup(func() {
		_ = r.Process.Kill() // it may have ended
		_ = r.Wait()
	})
	return r
}

// offers waits until a network is offered at a path.
func offers(t *testing.T, path string) {
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, bound, time.Millisecond)
}

// idle offers a network at a path, until the test has ended, to no programs of its own.
func idle(t *testing.T, path string, flags ...string) {
	needHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append(append([]string{"run", "-network", path}, flags...), "--", "sleep", "600"), io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		require.Error(t, <-done) // sleep was ended
		require.NoFileExists(t, path)
	})
	offers(t, path)
}

// eventuallyRuns runs a client whose server may not listen yet.
func eventuallyRuns(t *testing.T, args ...string) (said string) {
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		var out output
		err := run(ctx, append([]string{"run"}, args...), &out)
		said = out.String()
		return err == nil
	}, bound, 50*time.Millisecond)
	return said
}

// Programs of two runs reach each other on either link layer, where UDP knows one.
func TestJoinedPingpong(t *testing.T) {
	for name, c := range map[string]struct {
		layer   string
		program string
	}{
		"RoCE":          {"roce", "ibv_rc_pingpong -g 0 -c"},
		"RoCE IPv4":     {"roce", "ibv_rc_pingpong -g 1 -c -e -s 100000"},
		"RoCE UD":       {"roce", "ibv_ud_pingpong -g 0 -c -s 1024"},
		"InfiniBand":    {"ib", "ibv_rc_pingpong -c"},
		"InfiniBand UD": {"ib", "ibv_ud_pingpong -c -e -g 0 -s 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			program := append(strings.Fields(c.program), "-n", "50", "-p", freePort(t))
			need(t, program[0])
			path := filepath.Join(t.TempDir(), "net")
			server := startRun(t, append([]string{"-link", c.layer, "-network", path, "--"}, program...)...)
			offers(t, path)
			client := append([]string{"-link", c.layer, "-join=" + path, "--"}, program...)
			require.Contains(t, eventuallyRuns(t, append(client, "127.0.0.1")...), "50 iters in")
			require.NoError(t, server.Wait(), server.said.String())
			require.Contains(t, server.said.String(), "50 iters in")
		})
	}
}

// Two runs that have joined a third reach each other, with NICs enough of their own.
func TestJoinedTwice(t *testing.T) {
	program := []string{"ibv_rc_pingpong", "-c", "-n", "50", "-d", "mlx5_2", "-p", freePort(t)}
	need(t, program[0])
	path := filepath.Join(t.TempDir(), "net")
	idle(t, path, "-link=ib", "-n=2")
	flags := []string{"-link=ib", "-n=3", "-join=" + path, "--"}
	server := startRun(t, append(flags, program...)...)
	said := eventuallyRuns(t, append(append(flags, program...), "127.0.0.1")...)
	require.Contains(t, said, "50 iters in")
	require.NoError(t, server.Wait(), server.said.String())
	// LIDs are the whole network's: of 2, 3 and 3 NICs.
	require.NotContains(t, said, "LID 0x0001,")
	require.NotContains(t, said, "LID 0x0003,")
}

// What one run's end does to programs of the other: their retries end, as when a machine
// is gone. Both programs write all the time.
func TestJoinedKilled(t *testing.T) {
	for name, killServer := range map[string]bool{"who offers": true, "who joined": false} {
		t.Run(name, func(t *testing.T) {
			program := []string{"ib_write_bw", "-F", "-b", "-N", "-s", "64", "-n", "100000000", "-p", freePort(t)}
			need(t, program[0])
			dir := t.TempDir()
			path, trace := filepath.Join(dir, "net"), filepath.Join(dir, "trace")
			server := startRun(t, append([]string{"-network", path, "--"}, program...)...)
			offers(t, path)
			var client *otherRun
			connected := func() bool {
				b, _ := os.ReadFile(trace)
				return bytes.Contains(b, []byte(" CQE "))
			}
			for !connected() {
				client = startRun(t, append(append([]string{"-join=" + path, "-trace", trace, "--"}, program...), "127.0.0.1")...)
				require.Eventually(t, func() bool { return connected() || ended(client.Process.Pid) }, bound, time.Millisecond)
			}
			killed, left := client, server
			if killServer {
				killed, left = server, client
			}
			require.NoError(t, killed.Process.Kill())
			require.Error(t, left.Wait())
			require.Contains(t, left.said.String(), "Failed status 12", "retries exceeded")
			require.Equal(t, killServer, strings.Contains(left.said.String(), errEnded.Error()), left.said.String())
		})
	}
}

// A run takes over what a dead one left, not what is another's.
func TestNetworkSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net")
	dead := startRun(t, "-network", path, "--", "sleep", "600")
	offers(t, path)
	require.NoError(t, dead.Process.Kill())
	require.Error(t, dead.Wait())
	require.FileExists(t, path)
	tool := func(args ...string) error { return run(t.Context(), append([]string{"run"}, args...), io.Discard) }
	require.ErrorContains(t, tool("-join="+path, "--", "true"), "no network")

	idle(t, path)
	i, err := os.Lstat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, i.Mode().Perm())
	require.NoError(t, tool("-join="+path, "--", "true"))
	require.ErrorIs(t, tool("-network", path, "--", "true"), errTaken)
	require.ErrorContains(t, tool("-link=ib", "-join="+path, "--", "true"), `"Ethernet" there, "InfiniBand" here`)
	require.ErrorIs(t, tool("-nic=link=udp", "-join="+path, "--", "true"), softnic.ErrJoined)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	require.Error(t, tool("-network", file, "--", "true"))
	require.FileExists(t, file)
	require.Error(t, tool("-network", filepath.Join(file, "net"), "--", "true"))
}

// Names are this user's, in a folder that comes and goes. Without a name a run offers
// its network if it can.
func TestNetworkNames(t *testing.T) {
	needHost(t)
	tool := func(args ...string) error { return run(t.Context(), append([]string{"run"}, args...), io.Discard) }
	for _, name := range []string{"", "x"} {
		t.Setenv("XDG_RUNTIME_DIR", name)
		if name != "" {
			t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
		}
		t.Setenv("TMPDIR", t.TempDir())
		require.ErrorContains(t, tool("-join", "--", "true"), "no network default")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx, []string{"run", "--", "sleep", "600"}, io.Discard) }()
		offers(t, filepath.Join(networkFolder(), defaultNetwork+".sock"))
		require.NoError(t, tool("-join", "--", "true"))
		require.NoError(t, tool("--", "true"), "the name is taken, which does no harm")
		require.NoError(t, tool("-network", "other", "--", "true"))
		require.ErrorIs(t, tool("-network", defaultNetwork, "--", "true"), errTaken)
		cancel()
		require.Error(t, <-done)
		require.NoDirExists(t, networkFolder())
	}
	require.NoError(t, os.Mkdir(networkFolder(), 0o755))
	require.ErrorContains(t, tool("-network", "x", "--", "true"), "this user alone")
	require.NoError(t, tool("--", "true"))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(t.TempDir(), "not", "there"))
	require.ErrorIs(t, tool("-network", "x", "--", "true"), os.ErrNotExist)
}

func TestOtherUser(t *testing.T) {
	require.NoError(t, checkUser(os.Geteuid()))
	require.ErrorContains(t, checkUser(os.Geteuid()+1), "is there")
}

// Whoever comes to the socket with something else is sent away, and so are too many.
func TestNetworkStrangers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net")
	idle(t, path)
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	_, err = c.Write(bytes.Repeat([]byte("x"), 100))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, c) // its hello, and no more
	require.True(t, err == nil || errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "reset"), err)
	require.NoError(t, c.Close())

	refused := false
	for range maxJoined + 2 {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer c.Close()
		n, _ := c.Read(make([]byte, 1))
		refused = refused || n == 0
	}
	require.True(t, refused)
}
