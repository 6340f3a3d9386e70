package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), args, &out))
		require.Contains(t, out.String(), "usage: farwire command")
	}
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"run", "-h"}, &out), flag.ErrHelp)
	require.Contains(t, out.String(), "usage: farwire run")
	require.Contains(t, out.String(), "-link")
	require.ErrorContains(t, run(t.Context(), nil, io.Discard), "usage")
}

func TestArgumentErrors(t *testing.T) {
	for args, want := range map[string]string{
		"walk":                                   "unknown command",
		"run":                                    "program is missing",
		"run --":                                 "program is missing",
		"run -- true :::":                        "program is missing",
		"run -- ::: true":                        "program is missing",
		"run -x":                                 "not defined",
		"run -n x -- true":                       "invalid value",
		"run -link token -- true":                "neither roce nor ib",
		"run -nic name=x -- true":                "mlx5_0 and on",
		"run -nic speed=1 -- true":               "unknown key",
		"run -impair loss=2 -- true":             "outside 0 to 1",
		"run -nic seed=1 -impair seed=2 --":      "program is missing",
		"run -nic seed=1 -impair seed=2 -- true": "twice",
		"run -join= -- true":                     "no name",
		"run -join=.x -- true":                   "network name",
		"run -network .x -- true":                "network name",
		"run -network x -join -- true":           "offered or joined",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard), want, args)
	}
}

func TestExitCode(t *testing.T) {
	require.Equal(t, 1, exitCode(errors.New("other")))
	err := exec.Command("/proc/self/exe", "-no-such-flag").Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		require.Equal(t, 2, exitCode(err))
	}
}

// needHost skips the test where no program can be run.
func needHost(t *testing.T) {
	t.Helper()
	if err := interpose.Check(); err != nil {
		t.Skip(err)
	}
}

func TestRunErrors(t *testing.T) {
	needHost(t)
	for args, want := range map[string]string{
		"run -- no-such-program":                 "executable file not found",
		"run -- sleep 600 ::: no-such":           "executable file not found",
		"run -n 0 -- true":                       "0 NICs",
		"run -n 33 -- true":                      "33 NICs",
		"run -link ib -nic addr=1.1.1.1 -- true": "InfiniBand",
		"run -- false":                           "exit status 1",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard), want, args)
	}
}

// Programs see nothing unusual: input, output and exit codes are theirs.
func TestRunPlainPrograms(t *testing.T) {
	needHost(t)
	cmd := exec.Command("/proc/self/exe", "run", "--", "sh", "-c", "cat; exit 3", ":::", "echo", "second")
	cmd.Env = append(os.Environ(), asTool+"=1")
	cmd.Stdin = strings.NewReader("input\n")
	out, err := cmd.Output()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 3, failed.ExitCode())
	require.Contains(t, string(failed.Stderr), "farwire: sh: exit status 3")
	require.Contains(t, string(out), "input\n")
	require.Contains(t, string(out), "second\n")
}

// A program is asked to end when the tool is.
func TestRunInterrupted(t *testing.T) {
	needHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"run", "--", "sh", "-c", "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done"}, write)
		write.Close()
	}()
	line := make([]byte, len("ready\n"))
	_, err := io.ReadFull(read, line)
	require.NoError(t, err)
	cancel()
	rest, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Equal(t, "asked\n", string(rest))
	require.Error(t, <-done)
}

// toolProcess starts the tool with a program that does nothing, and returns the
// program's process.
func toolProcess(t *testing.T) (tool *exec.Cmd, program int) {
	t.Helper()
	needHost(t)
	tool = exec.Command("/proc/self/exe", "run", "--", "sh", "-c", "echo $$; exec sleep 600")
	tool.Env = append(os.Environ(), asTool+"=1", "TMPDIR="+t.TempDir())
	out, err := tool.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tool.Start())
	_, err = fmt.Fscan(out, &program)
	require.NoError(t, err)
	return tool, program
}

// ended reports whether a process is gone, or waits for its parent at most.
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

// What ends the tool ends its programs.
func TestToolKilled(t *testing.T) {
	tool, program := toolProcess(t)
	require.NoError(t, tool.Process.Kill())
	require.Error(t, tool.Wait())
	require.Eventually(t, func() bool { return ended(program) }, 20*time.Second, time.Millisecond)
}

// A tool that is asked to end leaves no files.
func TestToolTerminated(t *testing.T) {
	tool, program := toolProcess(t)
	require.NoError(t, tool.Process.Signal(syscall.SIGTERM))
	require.Error(t, tool.Wait())
	require.True(t, ended(program))
	left, err := os.ReadDir(tool.Env[len(tool.Env)-1][len("TMPDIR="):])
	require.NoError(t, err)
	require.Empty(t, left)
}

// What the NICs counted is written once the programs' files are closed.
func TestRunCounters(t *testing.T) {
	needHost(t)
	file := filepath.Join(t.TempDir(), "counters.json")
	require.NoError(t, run(t.Context(), []string{"run", "-n", "2", "-counters", file, "--", "true"}, io.Discard))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var counters map[string]softnic.Counters
	require.NoError(t, json.Unmarshal(b, &counters))
	require.Equal(t, map[string]softnic.Counters{"mlx5_0": {}, "mlx5_1": {}}, counters)
	require.ErrorIs(t, run(t.Context(), []string{"run", "-counters", filepath.Join(file, "x"), "--", "true"}, io.Discard), syscall.ENOTDIR)
}
