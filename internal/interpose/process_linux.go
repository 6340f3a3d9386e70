//go:build amd64 || arm64

package interpose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that runs, with all that it forks.
type Process struct {
	host *Host
	cmd  *exec.Cmd
	name string

	listener  listener
	stop      int // a descriptor whose end ends the loop
	stopWrite *os.File

	listening     chan struct{}
	onceListening sync.Once
	loopEnd       chan struct{}
	exited        chan struct{}
	err           error // of the exit
}

// killDelay is how long a program may take to end after it was asked to.
const killDelay = 3 * time.Second

// Start runs a program on the host's NICs. When ctx ends the program is sent
// SIGTERM, and some seconds later SIGKILL. The caller must call Wait.
func (h *Host) Start(ctx context.Context, c Command) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("run: no program given")
	}
	p, err := h.start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return p, nil
}

func (h *Host) start(ctx context.Context, c Command) (*Process, error) {
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = c.Args
	cmd.Env = append(c.Env, h.env()...)
	if c.Env == nil {
		cmd.Env = append(os.Environ(), h.env()...)
	}
	cmd.Env = append(cmd.Env, childVar+"="+path)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, c.Stdout, c.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = killDelay
	// Without this process a program could only spin for ever. The child sets it anew.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	p := &Process{host: h, cmd: cmd, name: c.Args[0],
		listening: make(chan struct{}), loopEnd: make(chan struct{}), exited: make(chan struct{})}
	if err = p.takeOver(ours); err == nil {
		if err = h.add(p); err != nil {
			p.endLoop()
		}
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	go p.wait(ctx)
	return p, nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "run"), os.NewFile(uintptr(fds[1]), "run"), nil
}

// takeOver receives the listener from the child, starts to serve it, and waits
// until the child has executed the program.
func (p *Process) takeOver(socket *os.File) error {
	buf, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(socket.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("recvmsg", err)
	}
	if oobn == 0 {
		return fmt.Errorf("%w: %s", ErrUnsupported, buf[:n])
	}
	if p.listener, err = listenerOf(oob[:oobn]); err != nil {
		return err
	}
	if err := p.serve(); err != nil {
		return err
	}
	said, err := io.ReadAll(socket)
	if err == nil && len(said) > 0 {
		err = errors.New(string(said))
	}
	if err != nil {
		p.endLoop()
	}
	return err
}

// endLoop ends the service of the program's calls.
func (p *Process) endLoop() {
	_ = p.stopWrite.Close()
	<-p.loopEnd
}

func listenerOf(oob []byte) (listener, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return listener(fds[0]), nil
}

// wait notes the program's end. What it started is waited for as long as the
// context lets it.
func (p *Process) wait(ctx context.Context) {
	p.err = p.cmd.Wait()
	close(p.exited)
	defer context.AfterFunc(ctx, func() { _ = p.stopWrite.Close() })()
	<-p.loopEnd
}

// Listening is closed when the program first waits for connections, or ends.
func (p *Process) Listening() <-chan struct{} { return p.listening }

func (p *Process) nowListening() { p.onceListening.Do(func() { close(p.listening) }) }

// Wait waits until the program and all that it started have ended, or the
// program has and its context or host too, and returns the program's
// *exec.ExitError, if it failed.
func (p *Process) Wait() error {
	<-p.exited
	<-p.loopEnd
	_ = p.stopWrite.Close()
	p.host.remove(p)
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}
