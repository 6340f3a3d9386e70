package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPingpongTransports has rdma-core's examples use what is not a reliable
// connection with receives of its own: unreliable connections, datagrams, shared
// receive queues; and messages that lie in their completions, of either size. The
// programs check the bytes.
func TestPingpongTransports(t *testing.T) {
	const count = 50
	for name, c := range map[string]struct {
		flags   []string
		program string
		size    string // of completions, in bytes
	}{
		"UC":                      {nil, "ibv_uc_pingpong -g 0 -c", ""},
		"UC event":                {nil, "ibv_uc_pingpong -g 1 -c -e", ""},
		"UC InfiniBand":           {[]string{"-link", "ib"}, "ibv_uc_pingpong -c -e", ""},
		"UC old":                  {[]string{"-nic", "uar=static,cqe=0,bf=off"}, "ibv_uc_pingpong -g 0 -c -e", ""},
		"UD":                      {nil, "ibv_ud_pingpong -g 0 -c -s 1024", ""},
		"UD IPv4":                 {nil, "ibv_ud_pingpong -g 1 -c -s 2048 -e", ""},
		"UD small":                {nil, "ibv_ud_pingpong -g 0 -c -s 16 -e", ""},
		"UD InfiniBand":           {[]string{"-link", "ib"}, "ibv_ud_pingpong -c -s 1024 -e", ""},
		"UD InfiniBand GRH":       {[]string{"-link", "ib"}, "ibv_ud_pingpong -g 0 -c -s 1024 -e", ""},
		"UD old":                  {[]string{"-nic", "kernel=old"}, "ibv_ud_pingpong -g 0 -c -s 1024 -e", ""},
		"SRQ":                     {nil, "ibv_srq_pingpong -g 0 -c", ""},
		"SRQ event":               {nil, "ibv_srq_pingpong -g 1 -c -e -q 4", ""},
		"SRQ old":                 {[]string{"-nic", "uar=static,cqe=0,bf=off"}, "ibv_srq_pingpong -g 0 -c -e", ""},
		"SRQ InfiniBand":          {[]string{"-link", "ib"}, "ibv_srq_pingpong -c -e", ""},
		"in completions":          {nil, "ibv_rc_pingpong -g 0 -c -s 32", ""},
		"in large completions":    {nil, "ibv_rc_pingpong -g 0 -c -s 64 -e", "128"},
		"SRQ in completions":      {nil, "ibv_srq_pingpong -g 0 -c -s 20 -e", ""},
		"SRQ in large":            {nil, "ibv_srq_pingpong -g 0 -c -s 60 -e", "128"},
		"UC in completions":       {nil, "ibv_uc_pingpong -g 0 -c -s 20 -e", ""},
		"UD in large completions": {nil, "ibv_ud_pingpong -g 0 -c -s 20 -e", "128"},
	} {
		t.Run(name, func(t *testing.T) {
			program := strings.Fields(c.program)
			need(t, program[0])
			if c.size != "" {
				t.Setenv("MLX5_CQE_SIZE", c.size)
			}
			out := runTool(t, pair(t, c.flags, append(program, "-n", fmt.Sprint(count)))...)
			require.Equal(t, 2, strings.Count(out, fmt.Sprintf("%d iters in", count)), out)
			require.NotContains(t, out, "invalid data")
		})
	}
}

// TestPerftestTransports runs the programs of perftest over the other transports.
func TestPerftestTransports(t *testing.T) {
	for name, program := range map[string]string{
		"UC send latency":  "ib_send_lat -c UC -n 20",
		"UC write":         "ib_write_bw -c UC -n 50",
		"UC write latency": "ib_write_lat -c UC -n 20",
		"UD send latency":  "ib_send_lat -c UD -n 20",
		"SRQ send":         "ib_send_bw --use-srq -n 50",
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(program)
			need(t, args[0])
			require.Contains(t, runTool(t, pair(t, nil, append(args, "-F"))...), "#bytes")
		})
	}
}
