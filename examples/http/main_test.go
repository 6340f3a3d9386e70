package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/examples/internal/exampletest"
)

var program = exampletest.Program{
	Main:  main,
	Run:   run,
	Small: []string{"-t", "100ms", "-body", "8"},
	Wants: []string{"p99", "upload: 8 MiB", "download: 8 MiB", "agrees"},
	Bad:   [][]string{{"-t", "0s"}, {"-body", "-1"}},
}

func TestMain(m *testing.M)         { program.TestMain(m) }
func TestOneProcess(t *testing.T)   { program.OneProcess(t) }
func TestTwoProcesses(t *testing.T) { program.TwoProcesses(t) }
func TestKernel(t *testing.T)       { program.OnKernel(t) }
func TestUsage(t *testing.T)        { program.Usage(t) }

// On a terminal the progress is one line that ends as the result; elsewhere only the
// result is printed. Missing and changed bytes are errors.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress("upload", 2<<20, &out)
	require.False(t, p.live, "a buffer is no terminal")
	p.live = true
	for range 2 {
		n, err := p.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.Equal(t, 1<<20, n)
	}
	require.Equal(t, "\rupload: 1 of 2 MiB", out.String(), "not again within a moment")
	require.NoError(t, p.finish("abc", "abc"))
	require.Contains(t, out.String(), "\r\x1b[Kupload: 2 MiB in ")

	require.ErrorContains(t, p.finish("abc", "abd"), "checksums differ")
	require.ErrorContains(t, newProgress("upload", 1, &out).finish("", ""), "0 of 1 bytes arrived")
}
