//go:build amd64 || arm64

package interpose

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

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/softnic"
)

func newTestHost(t *testing.T) (*Host, *softnic.NIC) {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip(err)
	}
	nic := newNIC(t, softnic.Config{Name: "mlx5_0"})
	h, err := New([]*softnic.NIC{nic}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = h.Close()
		require.ErrorIs(t, h.Close(), os.ErrClosed)
		require.NoDirExists(t, h.sysfs)
		c := nic.Counters()
		require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.EventFiles, "%+v", c)
	})
	return h, nic
}

// dialogue is a program and what it says.
type dialogue struct {
	t *testing.T
	*Process
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, ctx context.Context, h *Host, program string) *dialogue {
	t.Helper()
	inRead, inWrite, err := os.Pipe()
	require.NoError(t, err)
	outRead, outWrite, err := os.Pipe()
	require.NoError(t, err)
	p, err := h.Start(ctx, Command{
		Args: []string{"/proc/self/exe"}, Env: append(os.Environ(), programVar+"="+program),
		Stdin: inRead, Stdout: outWrite, Stderr: os.Stderr,
	})
	require.NoError(t, err)
	require.NoError(t, inRead.Close())
	require.NoError(t, outWrite.Close())
	t.Cleanup(func() { inWrite.Close(); outRead.Close() })
	return &dialogue{t, p, inWrite, bufio.NewReader(outRead)}
}

// hears waits for a line.
func (d *dialogue) hears(want string) {
	d.t.Helper()
	line, err := d.out.ReadString('\n')
	require.NoError(d.t, err)
	require.Equal(d.t, want, strings.TrimSpace(line))
}

// says lets the program go on.
func (d *dialogue) says() { fmt.Fprintln(d.in) }

func TestOwnDriver(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "loopback")
	d.hears("fine")
	require.NoError(t, d.Wait())
	c := nic.Counters()
	require.NotZero(t, c.CompletionEvents)
	require.Zero(t, c.BadDoorbells+c.ErrorCompletions, "%+v", c)
}

func TestSystemCalls(t *testing.T) {
	h, _ := newTestHost(t)
	d := start(t, t.Context(), h, "calls")
	d.hears("fine")
	require.NoError(t, d.Wait())
}

func TestClose(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "close")
	d.hears("open")
	require.Equal(t, 1, nic.Counters().Contexts)
	d.says()
	d.hears("mapped")
	require.Equal(t, 1, nic.Counters().Contexts, "a mapping keeps the context")
	d.says()
	d.hears("closed")
	eventually(t, "the context ends", func() bool { return nic.Counters().Contexts == 0 })
	d.says()
	require.NoError(t, d.Wait())
}

func TestExec(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "exec")
	d.hears("open")
	require.Equal(t, 1, nic.Counters().Contexts)
	d.says()
	d.hears("")
	eventually(t, "the context ends", func() bool { return nic.Counters().Contexts == 0 })
	d.says()
	require.NoError(t, d.Wait())
}

func TestFork(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "fork")
	d.hears("open")
	require.Equal(t, 1, nic.Counters().Contexts)
	d.says()
	require.NoError(t, d.Wait())
	eventually(t, "the context ends", func() bool { return nic.Counters().Contexts == 0 })
}

func TestEventFiles(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "events")
	d.hears("open")
	require.Equal(t, 3, nic.Counters().EventFiles)
	d.says()
	d.hears("closed")
	eventually(t, "the channel ends", func() bool { return nic.Counters().EventFiles == 2 })
	nic.Fail()
	d.says()
	d.hears("fine")
	require.NoError(t, d.Wait())
}

// What is killed leaves nothing.
func TestKill(t *testing.T) {
	h, nic := newTestHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := start(t, ctx, h, "close")
	d.hears("open")
	cancel()
	require.Error(t, d.Wait())
	eventually(t, "the context ends", func() bool { return nic.Counters().Contexts == 0 })
}

// The host goes first.
func TestCloseHost(t *testing.T) {
	h, nic := newTestHost(t)
	d := start(t, t.Context(), h, "close")
	d.hears("open")
	require.NoError(t, h.Close())
	require.Zero(t, nic.Counters().Contexts)
	_, err := h.Start(t.Context(), Command{Args: []string{"/proc/self/exe"}})
	require.ErrorIs(t, err, os.ErrClosed)
	require.NoError(t, d.cmd.Process.Kill())
	require.Error(t, d.Wait())
}

func TestFailedNIC(t *testing.T) {
	h, nic := newTestHost(t)
	nic.Fail()
	d := start(t, t.Context(), h, "close")
	require.Error(t, d.Wait(), "no device opens")
}

func TestExitCode(t *testing.T) {
	h, _ := newTestHost(t)
	var exit *exec.ExitError
	require.ErrorAs(t, start(t, t.Context(), h, "failing").Wait(), &exit)
	require.Equal(t, 7, exit.ExitCode())
}

// What a program leaves behind is served on, and waited for.
func TestDaemon(t *testing.T) {
	h, _ := newTestHost(t)
	d := start(t, t.Context(), h, "daemon")
	d.hears("started")
	<-d.exited
	select {
	case <-d.loopEnd:
		t.Fatal("not waited for")
	default:
	}
	d.says()
	require.NoError(t, d.Wait())
}

// Unless the context has ended.
func TestDaemonLeft(t *testing.T) {
	h, _ := newTestHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := start(t, ctx, h, "daemon")
	d.hears("started")
	cancel()
	_ = d.Wait()
	d.says()
}

func TestListening(t *testing.T) {
	h, _ := newTestHost(t)
	d := start(t, t.Context(), h, "listen")
	d.hears("ready")
	select {
	case <-d.Listening():
		t.Fatal("does not listen yet")
	default:
	}
	d.says()
	<-d.Listening()
	d.hears("listening")
	d.says()
	require.NoError(t, d.Wait())
}

func TestStartErrors(t *testing.T) {
	h, _ := newTestHost(t)
	_, err := h.Start(t.Context(), Command{})
	require.ErrorContains(t, err, "no program")
	_, err = h.Start(t.Context(), Command{Args: []string{"no-such-program"}})
	require.ErrorIs(t, err, exec.ErrNotFound)
	_, err = h.Start(t.Context(), Command{Args: []string{"true"}, Dir: "/no/such"})
	require.ErrorIs(t, err, os.ErrNotExist)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o700))
	_, err = h.Start(t.Context(), Command{Args: []string{text}})
	require.ErrorContains(t, err, "exec format error")
	require.Empty(t, h.processes)
}

// A second filter of the kind cannot be had.
func TestNested(t *testing.T) {
	h, _ := newTestHost(t)
	var out strings.Builder
	p, err := h.Start(t.Context(), Command{
		Args: []string{"/proc/self/exe", "-test.run", "^TestOwnDriver$"}, Env: os.Environ(), Stdout: &out,
	})
	require.NoError(t, err)
	require.Error(t, p.Wait())
	require.Contains(t, out.String(), "install seccomp filter: device or resource busy")
}

func TestNewErrors(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	_, err := New(nil, nil)
	require.ErrorContains(t, err, "0 NICs")
	t.Setenv("TMPDIR", "/no/such")
	_, err = New([]*softnic.NIC{newNIC(t, softnic.Config{})}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUnsupportedError(t *testing.T) {
	err := error(&unsupportedError{unix.ENOSYS})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorIs(t, err, unix.ENOSYS)
	require.Contains(t, err.Error(), "function not implemented")
	require.Equal(t, unix.EIO, errnoOf(io.EOF))
}
