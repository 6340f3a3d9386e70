package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// trace runs a program of the mode count and writes a line for each of its
// operations: the name, and the instructions of one entry. It executes the program
// one instruction at a time between each two breakpoints of its first thread, so
// that the count is exact, and the same for any language.
//
// The program is run again if it gets stuck.
func trace(args []string, stdout io.Writer) error {
	for try := 1; ; try++ {
		if err := traceOnce(args, stdout); try == tries || !errors.Is(err, errStuck) {
			return err
		}
	}
}

// A program is stuck if Go's scheduler has taken the thread away for another goroutine just
// before all other threads were stopped: then nobody gives it back.
const tries = 3

var errStuck = errors.New("trace: program is stuck between two breakpoints")

// patience is how long an instruction may take.
var patience = 10 * time.Second

func traceOnce(args []string, stdout io.Writer) error {
	// The thread that starts a program traces it. It stays on its processor, so it ends
	// with this goroutine.
	runtime.LockOSThread()
	if err := onOneProcessor(); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := traced(cmd.Process.Pid)
	counted, err := p.count()
	if err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	// Its end is known already; this is for its output.
	var gone *os.SyscallError
	if err := cmd.Wait(); err != nil && !errors.As(err, &gone) {
		return err
	}
	return report(said.String(), counted, stdout)
}

// onOneProcessor keeps this thread and the program on one processor: to go back and
// forth between two takes far longer.
func onOneProcessor() error {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	return unix.SchedSetaffinity(0, &one)
}

// traced is the id of a program's first thread, which is stopped.
type traced int

// count lets the program run to its end and counts instructions.
func (p traced) count() (counted []int, err error) {
	if _, err := p.wait(); err != nil { // for the exec
		return nil, err
	}
	for signal := 0; ; {
		if err := unix.PtraceCont(int(p), signal); err != nil {
			return nil, err
		}
		status, err := p.wait()
		switch {
		case err != nil:
			return nil, err
		case status.Exited() && status.ExitStatus() == 0:
			return counted, nil
		case !status.Stopped():
			return nil, fmt.Errorf("trace: program ended: exit status %d, signal %v", status.ExitStatus(), status.Signal())
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
			continue
		}
		signal = 0
		n, err := p.alone()
		if err != nil {
			return nil, err
		}
		counted = append(counted, n)
	}
}

func (p traced) wait() (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(int(p), &status, unix.WALL, nil)
		if err != unix.EINTR {
			return status, err
		}
	}
}

// alone is step while the program's other threads stand still: Go's would otherwise
// take the thread for one that runs too long, and interrupt it.
func (p traced) alone() (n int, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p))
	if err != nil {
		return 0, err
	}
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if other := traced(id); other != p {
			if err := other.stop(); err == unix.ESRCH {
				continue // it has ended
			} else if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, unix.PtraceDetach(id)) }()
		}
	}
	return p.step()
}

func (p traced) stop() error {
	if err := unix.PtraceSeize(int(p)); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(int(p)); err != nil {
		return err
	}
	_, err := p.wait()
	return err
}

// step executes instructions until the one that follows the breakpoint comes
// again, and returns how many they were.
func (p traced) step() (n int, err error) {
	start, err := p.at()
	var steps atomic.Int64
	defer p.watch(&steps)()
	for at := uint64(0); err == nil && at != start; n++ {
		steps.Add(1)
		if err := unix.PtraceSingleStep(int(p)); err != nil {
			return n, err
		}
		status, err := p.wait()
		if err != nil {
			return n, err
		}
		if status.Signaled() && status.Signal() == unix.SIGKILL {
			return n, errStuck // by watch
		}
		if status.StopSignal() != unix.SIGTRAP {
			return n, fmt.Errorf("trace: program ended between two breakpoints: %v", status)
		}
		if at, err = p.at(); err != nil {
			return n, err
		}
	}
	return n, err
}

// watch kills the program when it makes no step for a while, until stop is called.
func (p traced) watch(steps *atomic.Int64) (stop func()) {
	done := make(chan struct{})
	go func() {
		for seen := int64(-1); ; {
			select {
			case <-done:
				return
			case <-time.After(patience):
			}
			now := steps.Load()
			if now == seen {
				_ = unix.Kill(int(p), unix.SIGKILL)
				return
			}
			seen = now
		}
	}()
	return func() { close(done) }
}

// at is the address of the next instruction.
func (p traced) at() (uint64, error) {
	var regs unix.PtraceRegs
	err := unix.PtraceGetRegs(int(p), &regs)
	return regs.Rip, err
}
