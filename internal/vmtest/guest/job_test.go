//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// runJob runs a job of the shell and returns what was reported: all output, and
// how it ended.
func runJob(t *testing.T, j plan.Job) (string, plan.Report) {
	t.Helper()
	var line bytes.Buffer
	require.NoError(t, (&reporter{out: json.NewEncoder(&line)}).run(5, j))
	in := json.NewDecoder(&line)
	var output []byte
	for {
		var r plan.Report
		require.NoError(t, in.Decode(&r))
		require.Equal(t, 5, r.Job)
		if r.Event == plan.End {
			require.ErrorIs(t, in.Decode(&r), io.EOF)
			return string(output), r
		}
		require.Equal(t, plan.Output, r.Event)
		output = append(output, r.Output...)
	}
}

func shell(script string) plan.Job {
	return plan.Job{Dir: "/", Command: []string{"/bin/sh", "-c", script}, Timeout: time.Minute}
}

func TestJob(t *testing.T) {
	t.Parallel()
	j := shell("echo out; echo err >&2; pwd; echo $A; exit 3")
	j.Env = []string{"A=b"}
	out, r := runJob(t, j)
	require.Equal(t, "out\nerr\n/\nb\n", out)
	require.Equal(t, 3, r.Status)
	require.Empty(t, r.Err)
	require.Positive(t, r.Elapsed)
}

func TestJobKilled(t *testing.T) {
	t.Parallel()
	_, r := runJob(t, shell("kill -TERM $$"))
	require.Equal(t, -1, r.Status)
	require.Contains(t, r.Err, "terminated")
}

func TestJobLeavesSomethingBehind(t *testing.T) {
	t.Parallel()
	out, r := runJob(t, shell("echo out; sleep 1000 &"))
	require.Equal(t, "out\n", out)
	require.Zero(t, r.Status)
	require.Empty(t, r.Err)
}

// A job that takes too long is killed with what it started.
func TestJobLate(t *testing.T) {
	t.Parallel()
	j := shell("echo on; sleep 1000 & sleep 1000")
	j.Timeout = time.Millisecond * 200
	_, r := runJob(t, j)
	require.Equal(t, -1, r.Status)
	require.Contains(t, r.Err, "killed after")
}

func TestJobThatIsNone(t *testing.T) {
	t.Parallel()
	_, r := runJob(t, plan.Job{Command: []string{"/no/such/program"}, Timeout: time.Minute})
	require.Equal(t, -1, r.Status)
	require.Contains(t, r.Err, "no such file")
}
