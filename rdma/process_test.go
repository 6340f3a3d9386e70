package rdma

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roleEnv is set in a process that a test started; it names what the process does.
const roleEnv = "FARWIRE_TEST_ROLE"

// play is the whole of such a process: a server that prints its address and lives until
// its standard input ends.
func play(role string) {
	if role == "busy" {
		if err := busy(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if address, ok := strings.CutPrefix(role, "clients "); ok {
		clients(address)
		return
	}
	listen, network := listenAloud, "rdma"
	role, tcp := strings.CutPrefix(role, "tcp ")
	if tcp {
		listen, network = net.Listen, "tcp"
	}
	ln, err := listen(network, "127.0.0.1:0")
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	go serve(ln, map[string]func(net.Conn){
		"echo":   echo,
		"sink":   sink,
		"silent": func(c net.Conn) { io.ReadFull(c, make([]byte, 1)); select {} },
	}[role])
	io.Copy(io.Discard, os.Stdin)
}

// clients are 100 connections to one server that write until the process is killed.
func clients(address string) {
	for range 100 {
		c, err := Dial("rdma", address)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		go io.Copy(c, unevenly([32]byte{}, 1<<40))
	}
	fmt.Println("ready")
	select {}
}

// patient is for the first connection of a process in a slow virtual machine.
var patient = Config{HandshakeTimeout: time.Minute}

// listenAloud is Listen that tells of clients whose handshake failed, which the client
// may not hear of.
func listenAloud(network, address string) (net.Listener, error) {
	lc := ListenConfig{Config: patient, OnError: func(remote net.Addr, err error) {
		fmt.Fprintf(os.Stderr, "handshake with %v: %v\n", remote, err)
	}}
	return lc.Listen(context.Background(), network, address)
}

// process is another process with a server in it.
type process struct {
	*exec.Cmd
	address string
}

func startProcess(t testing.TB, role string, env ...string) *process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, line)
	return &process{cmd, strings.TrimSpace(line)}
}

// needProcesses skips where two processes cannot reach each other. They use a device of
// the kernel's if there is one.
func needProcesses(t *testing.T) {
	if name := kernelDevice(); name != "" {
		t.Setenv(DeviceEnv, name)
		return
	}
	needUDP(t)
}

func TestTwoProcesses(t *testing.T) {
	needProcesses(t)
	p := startProcess(t, "echo")
	c, err := Dial("rdma", p.address)
	require.NoError(t, err)
	defer c.Close()
	const n = 1 << 20
	go io.Copy(c, unevenly([32]byte{1}, n))
	got := make([]byte, n)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	want, _ := io.ReadAll(unevenly([32]byte{1}, n))
	require.True(t, bytes.Equal(want, got))
}

// The death of the peer's process ends a blocked Read at once, with what TCP says.
func TestPeerKilled(t *testing.T) {
	needProcesses(t)
	p := startProcess(t, "silent")
	c, err := Dial("rdma", p.address)
	require.NoError(t, err)
	defer c.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	require.NoError(t, p.Process.Kill())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, syscall.ECONNRESET)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
	case <-time.After(10 * time.Second):
		t.Fatal("a Read outlived the peer's process by 10 s")
	}
	_, err = c.Write(make([]byte, 1))
	require.Error(t, err)
}

// A writer whose peer stops reading is blocked; the peer's death frees it.
func TestPeerKilledWhileWriting(t *testing.T) {
	needProcesses(t)
	p := startProcess(t, "silent")
	c, err := Dial("rdma", p.address)
	require.NoError(t, err)
	defer c.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, unevenly([32]byte{1}, 1<<30))
		ended <- err
	}()
	require.NoError(t, p.Process.Kill())
	require.ErrorIs(t, <-ended, syscall.ECONNRESET)
}

// Programs run under faults that the environment names.
func TestFaultsFromEnvironment(t *testing.T) {
	needUDP(t)
	p := startProcess(t, "echo", "FARWIRE_SOFTNIC=loss=0.02,dup=0.02,reorder=0.02,corrupt=0.01,delay=100us,seed=7")
	c, err := Dial("rdma", p.address)
	require.NoError(t, err)
	defer c.Close()
	const n = 256 << 10
	go io.Copy(c, unevenly([32]byte{2}, n))
	got := make([]byte, n)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	want, _ := io.ReadAll(unevenly([32]byte{2}, n))
	require.True(t, bytes.Equal(want, got))
}
