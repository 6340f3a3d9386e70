package main

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/examples/internal/exampletest"
)

var program = exampletest.Program{
	Main:  main,
	Run:   run,
	Small: []string{"-n", "16"},
	Wants: []string{"agrees"},
	Bad:   [][]string{{"-n", "15"}, {"-n", "-1"}},
}

func TestMain(m *testing.M)         { program.TestMain(m) }
func TestOneProcess(t *testing.T)   { program.OneProcess(t) }
func TestTwoProcesses(t *testing.T) { program.TwoProcesses(t) }
func TestUsage(t *testing.T)        { program.Usage(t) }

// A stranger and a silent client keep a lender neither from serving others nor from
// ending.
func TestStrangers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lent := make(chan error, 1)
	go func() { lent <- lendAll(ctx, ln, io.Discard) }()
	for _, says := range []string{"GET / HTTP/1.1\r\n\r\n", ""} {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, says)
		require.NoError(t, err)
	}
	require.NoError(t, borrow(ctx, ln.Addr().String(), blocks, io.Discard))
	stop()
	require.NoError(t, <-lent)
}
