//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// A reporter tells the host by a serial line.
type reporter struct {
	mu  sync.Mutex
	out *json.Encoder
}

// openReporter opens the line and has it pass bytes as they are.
func openReporter(line string) (*reporter, error) {
	f, err := os.OpenFile(line, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	t.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return &reporter{out: json.NewEncoder(f)}, nil
}

func (r *reporter) send(report plan.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(report)
}

// jobOutput is the standard output and error of a job.
type jobOutput struct {
	r   *reporter
	job int
}

func (o jobOutput) Write(b []byte) (int, error) {
	return len(b), o.r.send(plan.Report{Event: plan.Output, Job: o.job, Output: b})
}

// run runs a job and reports how it ended. The error is the line's.
func (r *reporter) run(i int, j plan.Job) error {
	cmd := exec.Command(j.Command[0], j.Command[1:]...)
	cmd.Dir = j.Dir
	cmd.Env = append(os.Environ(), j.Env...)
	out := jobOutput{r, i}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that all of a job can be killed
	cmd.WaitDelay = time.Second
	end := plan.Report{Event: plan.End, Job: i}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		end.Status, end.Err = -1, err.Error()
		return r.send(end)
	}
	var late atomic.Bool
	timer := time.AfterFunc(j.Timeout, func() {
		late.Store(true)
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGQUIT) // a Go program says where it is
		time.AfterFunc(5*time.Second, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	})
	err := cmd.Wait()
	timer.Stop()
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left behind
	end.Elapsed = time.Since(start)
	end.Status = cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	switch {
	case late.Load():
		end.Status, end.Err = -1, fmt.Sprintf("killed after %v", j.Timeout)
	case end.Status < 0:
		end.Err = cmd.ProcessState.String()
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay): // what it left behind may have its output
		end.Err = err.Error()
	}
	return r.send(end)
}
