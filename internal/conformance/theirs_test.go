package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestMain(m *testing.M) {
	interpose.Child()
	goleak.VerifyTestMain(m)
}

// needVar is set where rdma-core must be there.
const needVar = "FARWIRE_NEED_RDMA_CORE"

// bound is how long one call may take on a busy machine.
const bound = time.Minute

// theirs is libmlx5, behind a program that makes the calls of its input.
type theirs struct {
	process *interpose.Process
	in      io.WriteCloser
	out     *bufio.Reader
}

// build compiles the program, or skips the test where that cannot be.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "calls")
	err := interpose.Check()
	if err == nil {
		var said []byte
		said, err = exec.Command("cc", "-O1", "-Wall", "-o", program, "testdata/calls.c", "-libverbs").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("no C compiler or no libibverbs: %w: %s", err, said)
		}
	}
	if err != nil && os.Getenv(needVar) == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return program
}

// newTheirs runs the program on the NIC.
func newTheirs(t *testing.T, program string, nic *softnic.NIC) *theirs {
	host, err := interpose.New([]*softnic.NIC{nic}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	inRead, inWrite, err := os.Pipe()
	require.NoError(t, err)
	outRead, outWrite, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound) // not the test's: that ends before the clean-up
	t.Cleanup(cancel)
	p, err := host.Start(ctx, interpose.Command{
		Args: []string{program}, Stdin: inRead, Stdout: outWrite, Stderr: os.Stderr,
	})
	require.NoError(t, err)
	require.NoError(t, inRead.Close())
	require.NoError(t, outWrite.Close())
	t.Cleanup(func() {
		require.NoError(t, inWrite.Close())
		require.NoError(t, p.Wait())
		require.NoError(t, outRead.Close())
	})
	return &theirs{p, inWrite, bufio.NewReader(outRead)}
}

func (l *theirs) do(t *testing.T, call string) string {
	_, err := fmt.Fprintln(l.in, call)
	require.NoError(t, err)
	line, err := l.out.ReadString('\n')
	require.NoError(t, err, call)
	answer, ok := strings.CutPrefix(strings.TrimSpace(line), "ok")
	require.True(t, ok, "%s: %s", call, line)
	return strings.TrimSpace(answer)
}
