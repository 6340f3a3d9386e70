package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/interpose"
)

// The programs of Debian's ibverbs-utils and perftest, unmodified, with Debian's
// libibverbs and libmlx5. Where CI sets this variable they must be there.
const needVar = "FARWIRE_NEED_RDMA_CORE"

// bound is how long one run may take on a busy machine.
const bound = 2 * time.Minute

// need skips the test where it cannot run.
func need(t *testing.T, program string) {
	t.Helper()
	err := error(nil)
	if kernelDevice() == "" {
		err = interpose.Check()
	}
	if err == nil {
		_, err = exec.LookPath(program)
	}
	switch {
	case err == nil:
	case os.Getenv(needVar) != "":
		require.NoError(t, err)
	default:
		t.Skip(err)
	}
}

// output collects what several programs write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// runTool runs the tool in this process and returns what the programs said.
func runTool(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var out output
	err := run(ctx, append([]string{"run"}, args...), &out)
	require.NoError(t, err, out.String())
	return out.String()
}

// pair is a server and a client of it, with a port that is free. The client has
// more arguments.
func pair(t *testing.T, flags, program []string, client ...string) []string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
	require.NoError(t, ln.Close())
	program = append(slices.Clone(program), "-p", port)
	args := append(slices.Clone(flags), "--")
	args = append(append(args, program...), ":::")
	return append(append(append(args, program...), client...), "127.0.0.1")
}

func TestDevinfo(t *testing.T) {
	need(t, "ibv_devinfo")
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{nil, []string{"hca_id:\tmlx5_0", "PORT_ACTIVE", "link_layer:\t\tEthernet", "RoCE v2"}},
		{[]string{"-link", "ib"}, []string{"link_layer:\t\tInfiniBand", "port_lid:\t\t1"}},
		{[]string{"-n", "2"}, []string{"hca_id:\tmlx5_0", "hca_id:\tmlx5_1"}},
		{[]string{"-nic", "uar=static,cqe=0,bf=off"}, []string{"PORT_ACTIVE"}},
	} {
		out := runTool(t, append(c.flags, "--", "ibv_devinfo", "-v")...)
		for _, w := range c.want {
			require.Contains(t, out, w, c.flags)
		}
	}
}

// TestPingpong has rdma-core's own example exchange messages, whose bytes it checks.
func TestPingpong(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	const count = 50
	for name, c := range map[string]struct{ flags, program, client []string }{
		"polling":     {nil, []string{"-g", "0"}, nil},
		"events":      {nil, []string{"-g", "0", "-e"}, nil},
		"IPv4":        {nil, []string{"-g", "1", "-e"}, nil},
		"InfiniBand":  {[]string{"-link", "ib"}, []string{"-e"}, nil},
		"static":      {[]string{"-nic", "uar=static"}, []string{"-g", "0", "-e"}, nil},
		"old":         {[]string{"-nic", "uar=static,cqe=0,bf=off"}, []string{"-g", "0", "-e"}, nil},
		"old kernel":  {[]string{"-nic", "kernel=old"}, []string{"-g", "0", "-e"}, nil},
		"small MTU":   {nil, []string{"-g", "0", "-e", "-m", "256"}, nil},
		"large":       {nil, []string{"-g", "0", "-e", "-s", "1000000"}, nil},
		"many events": {nil, []string{"-g", "0", "-e", "-r", "3"}, nil},
		"two NICs":    {[]string{"-n", "2"}, []string{"-g", "0", "-e"}, []string{"-d", "mlx5_1"}},
		"impaired":    {[]string{"-impair", "loss=0.02,dup=0.02,reorder=0.02,seed=3"}, []string{"-g", "0", "-e"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			program := append([]string{"ibv_rc_pingpong", "-c", "-n", fmt.Sprint(count)}, c.program...)
			out := runTool(t, pair(t, c.flags, program, c.client...)...)
			require.Equal(t, 2, strings.Count(out, fmt.Sprintf("%d iters in", count)), out)
			require.NotContains(t, out, "invalid data")
		})
	}
}

// TestPerftest runs the programs of perftest. How fast they are is not looked at.
func TestPerftest(t *testing.T) {
	for name, program := range map[string]string{
		"send latency":       "ib_send_lat -n 20",
		"send latency event": "ib_send_lat -n 20 -e",
		"write latency":      "ib_write_lat -n 20",
		"read latency":       "ib_read_lat -n 20",
		"atomic latency":     "ib_atomic_lat -n 20",
		"send":               "ib_send_bw -n 50",
		"send event":         "ib_send_bw -n 50 -e",
		"send both ways":     "ib_send_bw -n 50 -b",
		"write":              "ib_write_bw -n 50",
		"write sizes":        "ib_write_bw -n 5 -a",
		"write queue pairs":  "ib_write_bw -n 20 -q 8",
		"read":               "ib_read_bw -n 50",
		"atomic":             "ib_atomic_bw -n 50",
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(program)
			need(t, args[0])
			out := runTool(t, pair(t, nil, append(args, "-F"))...)
			require.Contains(t, out, "#bytes")
		})
	}
}

// TestPingpongUDP has the two programs on NICs of different processes.
func TestPingpongUDP(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	for i, flags := range []string{"-nic=link=udp", "-nic=link=udp,mtu=1024"} {
		args := pair(t, []string{flags}, []string{"ibv_rc_pingpong", "-c", "-n", "20", "-g", "1", "-e"})
		middle := slices.Index(args, ":::")
		server := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"run"}, args[:middle]...)...)
		server.Env = append(os.Environ(), asTool+"=1")
		var said output
		server.Stdout, server.Stderr = &said, &said
		require.NoError(t, server.Start())
		// The client fails while the server does not listen yet.
		client := append([]string{flags, "--"}, args[middle+1:]...)
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			return run(ctx, append([]string{"run"}, client...), &said) == nil
		}, bound, 50*time.Millisecond, i)
		require.NoError(t, server.Wait(), said.String())
		require.Equal(t, 2, strings.Count(said.String(), "20 iters in"), said.String())
	}
}
