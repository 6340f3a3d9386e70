package vmtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeQEMU is a program that does what a shell script says, with the console as
// its standard output and the reports' line as descriptor 3.
func fakeQEMU(t *testing.T, script string) string {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no shell")
	}
	name := filepath.Join(t.TempDir(), "qemu")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755))
	return name
}

func fakeConfig(t *testing.T, script string, jobs int) Config {
	t.Helper()
	program := filepath.Join(t.TempDir(), "job.sh")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o644))
	cfg := Config{Kernel: &Image{Kernel: Kernels[0], Version: "6.1.0-test", dir: t.TempDir()}, QEMU: fakeQEMU(t, script)}
	for range jobs {
		cfg.Jobs = append(cfg.Jobs, Job{Name: "job", Program: program})
	}
	return cfg
}

func TestRun(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, `
		echo '{"Event":"up"}' >&3
		echo '{"Event":"output","Job":0,"Output":"aGVs"}{"Event":"output","Output":"bG8="}' >&3
		echo '{"Event":"end","Job":0,"Elapsed":5000}' >&3
		echo '{"Event":"end","Job":1,"Status":7}' >&3
		echo '{"Event":"end","Job":2,"Status":-1,"Err":"killed"}' >&3
		echo '{"Event":"done"}' >&3
		exec sleep 1000`, 3)
	results, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "hello", string(results[0].Output))
	require.Equal(t, 5*time.Microsecond, results[0].Elapsed)
	require.True(t, results[0].OK())
	require.Equal(t, 7, results[1].Status)
	require.NoError(t, results[1].Err)
	require.False(t, results[1].OK())
	require.EqualError(t, results[2].Err, "killed")
	require.False(t, results[2].OK())
}

// A guest that dies says where on its console; the jobs that were not finished
// say so.
func TestRunPanic(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, `
		echo '{"Event":"up"}{"Event":"end","Job":0}' >&3
		echo 'Kernel panic - not syncing'`, 3)
	results, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, ErrGuest)
	require.ErrorContains(t, err, "Kernel panic - not syncing")
	require.True(t, results[0].OK())
	require.EqualError(t, results[1].Err, "did not finish")
	require.EqualError(t, results[2].Err, "did not run")
}

// A guest that does not come up is booted again.
func TestRunBootsAgain(t *testing.T) {
	t.Parallel()
	tries := filepath.Join(t.TempDir(), "tries")
	cfg := fakeConfig(t, `
		echo x >>`+tries+`
		[ $(wc -l <`+tries+`) = 3 ] || exit 1
		echo '{"Event":"up"}{"Event":"end","Job":0}{"Event":"done"}' >&3`, 1)
	results, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, results[0].OK())

	cfg.QEMU = fakeQEMU(t, `echo x >>`+tries+`; echo no luck`)
	_, err = Run(t.Context(), cfg)
	require.ErrorContains(t, err, "no luck")
	text, err := os.ReadFile(tries)
	require.NoError(t, err)
	require.Equal(t, 3+attempts, strings.Count(string(text), "x"))
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, `echo '{"Event":"failed","Err":"set-up: no such module"}' >&3`, 1)
	_, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, ErrGuest)
	require.ErrorContains(t, err, "no such module")

	cfg.QEMU = fakeQEMU(t, `echo '{"Event":"up"}{"Event":"output","Job":9}' >&3`)
	_, err = Run(t.Context(), cfg)
	require.ErrorIs(t, err, ErrGuest, "a job that is none")

	cfg.QEMU = "/no/such/emulator"
	_, err = Run(t.Context(), cfg)
	require.ErrorIs(t, err, os.ErrNotExist)

	cfg.Jobs[0].Program = "/no/such/program"
	_, err = Run(t.Context(), cfg)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRunCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	up := filepath.Join(t.TempDir(), "up")
	cfg := fakeConfig(t, `echo '{"Event":"up"}' >&3; touch `+up+`; exec sleep 1000`, 1)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(up); err == nil {
				return
			}
		}
	}()
	_, err := Run(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
}
