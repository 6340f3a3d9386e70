package vmtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMachine boots the oldest kernel: jobs that end in every way, then one that
// takes the machine with it.
func TestMachine(t *testing.T) {
	t.Parallel()
	if os.Getenv("FARWIRE_TEST_VM") == "" {
		t.Skip("FARWIRE_TEST_VM is not set: make vm")
	}
	if err := Available(""); err != nil {
		require.Empty(t, os.Getenv("FARWIRE_NEED_VM"), err)
		t.Skip(err)
	}
	cache, err := CacheDir()
	require.NoError(t, err)
	kernel, err := Fetch(t.Context(), cache, Kernels[0])
	require.NoError(t, err)
	userland, err := FetchUserland(t.Context(), cache)
	require.NoError(t, err)
	script := func(text string) string {
		name := filepath.Join(t.TempDir(), "job.sh")
		require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755))
		return name
	}
	beside := filepath.Join(t.TempDir(), "beside")
	require.NoError(t, os.WriteFile(beside, nil, 0o644))
	cfg := Config{Kernel: kernel, Userland: userland, Setup: "ip link set lo up\necho done >/tmp/setup\n", Env: []string{"SAY=hello"}, Jobs: []Job{
		{Name: "speaks", Program: script(`echo $SAY $FARWIRE_VM $MORE $1; cat /tmp/setup; pwd; ls`), Args: []string{"arg"}, Env: []string{"MORE=more"}, Files: []string{beside}},
		{Name: "fails", Program: script("exit 7")},
		{Name: "is killed", Program: script("kill -TERM $$")},
		{Name: "hangs", Program: script("sleep 1000 & sleep 1000"), Timeout: time.Second},
		{Name: "goes on", Program: script(`alive() { for p in $(pidof sleep); do grep -q "State:.*Z" /proc/$p/status || return 0; done; return 1; }
			while alive; do usleep 10000; done`)}, // what hung is no more
		{Name: "has the tools", Program: script("set -e; rdma link; ip -br link; command -v ibv_rc_pingpong ib_write_bw rstream")},
		{Name: "ends it all", Program: script("echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger; sleep 1000")},
		{Name: "comes too late", Program: script("")},
	}}
	results, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, ErrGuest)
	require.ErrorContains(t, err, "sysrq triggered crash")
	require.Equal(t, "hello 6.1 more arg\ndone\n/jobs/0\nbeside\njob.sh\n", string(results[0].Output))
	require.True(t, results[0].OK(), "%+v", results[0])
	require.Equal(t, 7, results[1].Status)
	require.ErrorContains(t, results[2].Err, "terminated")
	require.ErrorContains(t, results[3].Err, "killed after 1s")
	require.True(t, results[4].OK(), "%+v", results[4])
	require.True(t, results[5].OK(), "%s", results[5].Output)
	require.Error(t, results[6].Err)
	require.True(t, errors.Is(results[7].Err, errNotRun))

	cfg.Setup, cfg.Jobs, cfg.CPUs = "echo what a pity >&2; exit 3", nil, 1
	_, err = Run(t.Context(), cfg)
	require.ErrorIs(t, err, ErrGuest)
	require.ErrorContains(t, err, "what a pity")
}
