package rdma

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// roundsEnv is how many messages a busy process sends.
const roundsEnv = "FARWIRE_TEST_ROUNDS"

func init() {
	if os.Getenv(roleEnv) == "busy" {
		runtime.LockOSThread() // the one that is traced
	}
}

// busy sends messages from one end of a connection to the other, on one thread.
func busy() error {
	debug.SetGCPercent(-1)
	rounds, err := strconv.Atoi(os.Getenv(roundsEnv))
	if err != nil {
		return err
	}
	ln, err := Listen("rdma", "127.0.0.1:0")
	if err != nil {
		return err
	}
	client, err := Dial("rdma", ln.Addr().String())
	if err != nil {
		return err
	}
	server, err := ln.Accept()
	if err != nil {
		return err
	}
	message := make([]byte, 4096)
	for range rounds {
		if _, err := client.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(server, message); err != nil {
			return err
		}
	}
	return nil
}

// TestNoSystemCalls: a message costs none, neither at the sender nor at the receiver, nor
// in the software NIC between them.
func TestNoSystemCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes it slow, and the runtime calls the system as time goes by")
	}
	const few, many = 1000, 11_000
	a, b := countSystemCalls(t, few), countSystemCalls(t, many)
	t.Logf("%d messages: %d system calls; %d messages: %d", few, a, many, b)
	require.Less(t, b-a, (many-few)/50, "but for what the runtime does by itself")
}

// countSystemCalls counts the system calls of the one thread of a busy process.
func countSystemCalls(t *testing.T, rounds int) (n int) {
	runtime.LockOSThread() // it is the thread that traces
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=busy", roundsEnv+"="+strconv.Itoa(rounds))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	err := cmd.Start()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("processes may not be traced here:", err)
	}
	require.NoError(t, err)
	defer cmd.Wait()
	const traceSystemCalls, killWithTracer = 1, 1 << 20 // PTRACE_O_TRACESYSGOOD, PTRACE_O_EXITKILL
	const systemCall = syscall.SIGTRAP | 0x80
	pid, status := cmd.Process.Pid, syscall.WaitStatus(0)
	_, err = syscall.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	require.NoError(t, syscall.PtraceSetOptions(pid, traceSystemCalls|killWithTracer))
	for signal := 0; ; {
		require.NoError(t, syscall.PtraceSyscall(pid, signal))
		_, err := syscall.Wait4(pid, &status, 0, nil)
		require.NoError(t, err)
		signal = 0
		switch {
		case status.Exited():
			require.Zero(t, status.ExitStatus())
			return n / 2 // each stops it on its way in and out
		case status.StopSignal() == systemCall:
			n++
		case status.StopSignal() != syscall.SIGTRAP:
			signal = int(status.StopSignal())
		}
	}
}
