package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTraceErrors(t *testing.T) {
	var out strings.Builder
	require.ErrorIs(t, trace([]string{"/no/such/program"}, &out), os.ErrNotExist)
	require.ErrorContains(t, trace([]string{"false"}, &out), "exit status 1")
	require.NoError(t, trace([]string{"true"}, &out), "it has no breakpoints")
	require.Empty(t, out.String())
}

// A program that waits for what does not come is ended, and that is the error.
func TestTraceOfAStuckProgram(t *testing.T) {
	defer func(p time.Duration) { patience = p }(patience)
	patience = 200 * time.Millisecond
	nobodyWrites := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(nobodyWrites, 0o600))
	err := trace([]string{"/bin/sh", "-c", "kill -TRAP $$; read x <" + nobodyWrites}, io.Discard)
	require.ErrorIs(t, err, errStuck)
}
