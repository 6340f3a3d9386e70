package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/vmtest/cable"
)

// TestKernelTransports has programs of rdma-core and perftest speak to themselves over
// what our drivers have not: unreliable connections, and datagrams with their GRH. One
// runs on the kernel's device, the other, in another network namespace, on a software
// NIC. Both are servers in turn. The examples check the bytes.
func TestKernelTransports(t *testing.T) {
	cable.Lay(t)
	port := 18600 // another one each time: those that were used are so for a while
	for turn, program := range []string{
		"ibv_uc_pingpong -c -e -n 50 -m 1024 -s 4000",
		"ibv_uc_pingpong -c -e -n 50 -m 1024 -s 16",
		"ibv_ud_pingpong -c -e -n 50 -s 1000",
		"ib_send_bw -F -c UC -n 50 -m 1024 -s 1500", // all of it fits into every queue on the way: what is lost stays lost
		"ib_write_bw -F -c UC -n 50 -m 1024",
		"ib_send_lat -F -c UD -n 20",
		"ib_send_lat -F -c RC -n 20 -m 1024",
		"ib_read_lat -F -n 20 -m 1024 -o 16",
		"ib_atomic_lat -F -A CMP_AND_SWAP -n 20 -m 1024 -o 16",
	} {
		t.Run(program, func(t *testing.T) {
			for i, name := range []string{"IPv4", "IPv6"} {
				softServes := (turn+i)%2 == 1
				t.Run(fmt.Sprintf("%s, software NIC serves: %v", name, softServes), func(t *testing.T) {
					port++
					playTransport(t, cable.Networks[name], program, softServes, port)
				})
			}
		})
	}
}

// softGID is where a software NIC of farwire run has its address.
const softGID = "1"

func playTransport(t *testing.T, n cable.Network, program string, softServes bool, port int) {
	args := append(strings.Fields(program), "-p", strconv.Itoa(port))
	index := "-g"
	if strings.HasPrefix(program, "ib_") {
		index = "-x"
	}
	kernel := append(args[:len(args):len(args)], "-d", cable.Device, index, strconv.Itoa(kernelGID(t, n)))
	tool, err := os.Executable()
	require.NoError(t, err)
	soft := append([]string{"ip", "netns", "exec", cable.Namespace, tool, "run",
		"-nic", "link=udp,addr=" + n.Soft.String(), "--"}, append(args[:len(args):len(args)], index, softGID)...)
	meet := cable.Networks["IPv4"] // over TCP, whatever the packets travel by
	server, client, at := kernel, soft, meet.Kernel.String()
	if softServes {
		server, client, at = soft, kernel, meet.Soft.String()
	}
	var said output
	start := func(args []string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Env = append(os.Environ(), asTool+"=1")
		c.Stdout, c.Stderr = &said, &said
		require.NoError(t, c.Start())
		return c
	}
	s := start(server)
	defer func() {
		if t.Failed() {
			_ = s.Process.Kill()
			t.Logf("%s", said.String())
		}
	}()
	wait := "cat /proc/net/tcp /proc/net/tcp6"
	if softServes {
		wait = "ip netns exec " + cable.Namespace + " " + wait
	}
	listens := fmt.Sprintf(":%04X ", port)
	require.Eventually(t, func() bool {
		f := strings.Fields(wait)
		b, err := exec.Command(f[0], f[1:]...).Output()
		return err == nil && bytes.Contains(b, []byte(listens))
	}, 20*time.Second, 50*time.Millisecond, "nobody listens")
	c := start(append(client, at))
	require.NoError(t, c.Wait())
	require.NoError(t, s.Wait())
	require.NotContains(t, said.String(), "invalid data")
}

// kernelGID is where the kernel's device has its address.
func kernelGID(t *testing.T, n cable.Network) (index int) {
	want := net.IP(n.Kernel.AsSlice()).To16()
	require.Eventually(t, func() bool {
		for index = range 8 {
			b, _ := os.ReadFile(fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", cable.Device, index))
			text := strings.ReplaceAll(strings.TrimSpace(string(b)), ":", "")
			if text == fmt.Sprintf("%x", []byte(want)) {
				return true
			}
		}
		return false
	}, time.Minute, 10*time.Millisecond, "the kernel adds addresses in its own time")
	return index
}
