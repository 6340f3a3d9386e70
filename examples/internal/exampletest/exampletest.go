// Package exampletest runs an example program as its README says: alone, and
// as two processes.
package exampletest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram is set in the environment of a test binary that is to be the program.
const asProgram = "FARWIRE_EXAMPLE"

// Program is an example under test.
type Program struct {
	Main  func()                                           // the program
	Run   func(context.Context, []string, io.Writer) error // what Main calls
	Small []string                                         // arguments that make its work short
	Wants []string                                         // words of a run that went well, beside the device
	Bad   [][]string                                       // arguments that make no sense
}

// TestMain is for an example's TestMain: it runs the tests and looks for
// goroutines left over, or is the program itself in a process that a test started.
func (p Program) TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		p.Main()
		return
	}
	goleak.VerifyTestMain(m)
}

// device is what a run says of its device when nothing else is asked for.
const device = "(software)"

// OneProcess runs the program without -listen and -dial.
func (p Program) OneProcess(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, p.Run(t.Context(), p.Small, &out))
	p.check(t, out.String(), device)
}

// TwoProcesses runs it once with -listen and once with -dial.
func (p Program) TwoProcesses(t *testing.T) { p.twoProcesses(t, device) }

// OnKernel is TwoProcesses on a device of the kernel's, in a virtual machine: of Soft-RoCE,
// which FARWIRE_RXE names (make vm), or of the mlx5 driver, which FARWIRE_MLX5 names
// (make vm-mlx5). The program is the same, and only its environment differs.
func (p Program) OnKernel(t *testing.T) {
	name := cmp.Or(os.Getenv("FARWIRE_RXE"), os.Getenv("FARWIRE_MLX5"))
	if name == "" {
		t.Skip("neither FARWIRE_RXE nor FARWIRE_MLX5 is set")
	}
	t.Setenv("FARWIRE_DEVICE", name)
	p.twoProcesses(t, "over "+name)
}

func (p Program) twoProcesses(t *testing.T, device string) {
	ctx, stop := context.WithCancel(t.Context())
	server := p.command(ctx, "-listen", "127.0.0.1:0")
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer server.Wait()
	defer stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	require.True(t, ok, line)

	out, err := p.command(ctx, append([]string{"-dial", address}, p.Small...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	p.check(t, string(out), device)
}

// Usage gives the program arguments that it must refuse.
func (p Program) Usage(t *testing.T) {
	require.ErrorContains(t, p.Run(t.Context(), []string{"-listen", "a", "-dial", "b"}, io.Discard), "two programs")
	require.Error(t, p.Run(t.Context(), []string{"-dial", "127.0.0.1:1"}, io.Discard), "nobody listens on port 1")
	require.Error(t, p.Run(t.Context(), []string{"-listen", "127.0.0.1:99999"}, io.Discard))
	for _, arguments := range p.Bad {
		require.ErrorContains(t, p.Run(t.Context(), arguments, io.Discard), "at least")
	}
}

func (p Program) check(t *testing.T, out, device string) {
	t.Helper()
	require.Contains(t, out, device)
	for _, w := range p.Wants {
		require.Contains(t, out, w)
	}
}

func (p Program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}
