package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// A Config is a virtual machine and what it does.
type Config struct {
	Kernel   *Image
	Userland string   // of FetchUserland; empty for a guest with nothing but the jobs
	Modules  []string // kernel modules beside those for Soft-RoCE, by name
	Setup    string   // shell script that must succeed before the jobs; needs Userland
	Env      []string // of the set-up and the jobs; FARWIRE_VM is the kernel's name
	Jobs     []Job

	// Devices are sockets at which a server of PCI devices (vfio-user) waits for the
	// machine, one for each device. They take the QEMU of FetchQEMU.
	Devices []string

	CPUs       int       // 0 is 2
	Memory     int       // MiB; 0 is 1024
	QEMU       string    // program; empty is qemu-system-x86_64
	QEMUArgs   []string  // beside those that make the machine
	KernelArgs string    // beside those that make it boot
	Console    io.Writer // gets a copy of the kernel's console; nil is none
}

// ErrGuest is matched by the error of a Run whose guest did not come to its end:
// it panicked, hung, or could not be set up.
var ErrGuest = errors.New("the virtual machine failed")

// attempts is how often a guest is booted that does not come up: the emulator,
// on a busy machine, now and then spoils a kernel's first second.
const attempts = 3

// Run boots a machine, runs the jobs one after the other and ends it. It returns
// a result for each job: those that a dying guest did not finish say so, and the
// error has the end of its console.
func Run(ctx context.Context, cfg Config) ([]Result, error) {
	temp, err := os.MkdirTemp("", "farwire-vm-")
	if err != nil {
		return nil, fmt.Errorf("run a virtual machine: %w", err)
	}
	defer os.RemoveAll(temp)
	initramfs := filepath.Join(temp, "initramfs")
	if err := writeInitramfs(ctx, &cfg, initramfs); err != nil {
		return nil, fmt.Errorf("run a virtual machine: %w", err)
	}
	for i := 1; ; i++ {
		results, up, err := runOnce(ctx, &cfg, initramfs)
		if up || err == nil || i == attempts || ctx.Err() != nil {
			return results, err
		}
	}
}

// bootTime is how long a guest may take until it is up, and graceTime how long it
// may be silent beyond what its job is allowed.
const (
	bootTime  = 2 * time.Minute
	graceTime = 30 * time.Second
)

// runOnce boots once. up says whether the guest came up, or said why not.
func runOnce(ctx context.Context, cfg *Config, initramfs string) (results []Result, up bool, err error) {
	for _, j := range cfg.Jobs {
		results = append(results, Result{Name: j.Name, Status: -1, Err: errNotRun})
	}
	m, err := boot(ctx, cfg, initramfs)
	if err != nil {
		return results, false, fmt.Errorf("boot kernel %s: %w", cfg.Kernel.Name, err)
	}
	defer m.end()
	limit := bootTime
	for {
		r, err := m.report(ctx, limit)
		if err != nil {
			unfinished(results, up)
			m.end() // or its last words may be on their way
			return results, up, fmt.Errorf("kernel %s: %w: %w; its console ends:\n%s", cfg.Kernel.Version, ErrGuest, err, m.console.tail())
		}
		switch r.Event {
		case plan.Up:
			up = true
		case plan.Failed:
			return results, true, fmt.Errorf("kernel %s: %w: %s", cfg.Kernel.Version, ErrGuest, r.Err)
		case plan.Output:
			results[r.Job].Output = append(results[r.Job].Output, r.Output...)
		case plan.End:
			results[r.Job].end(r)
		case plan.Done:
			return results, true, nil
		}
		limit = cfg.longest() + graceTime
	}
}

// errNotRun is the error of a job that has not run.
var errNotRun = errors.New("did not run")

// unfinished marks the job that was running when its machine ended.
func unfinished(results []Result, up bool) {
	for i := range results {
		if up && results[i].Err == errNotRun {
			results[i].Err = errors.New("did not finish")
			return
		}
	}
}

// end takes over how a job ended.
func (r *Result) end(report plan.Report) {
	r.Status, r.Elapsed, r.Err = report.Status, report.Elapsed, nil
	if report.Err != "" {
		r.Err = errors.New(report.Err)
	}
}

// longest is the most time a job is allowed.
func (cfg *Config) longest() time.Duration {
	longest := defaultTimeout
	for _, j := range cfg.Jobs {
		longest = max(longest, j.Timeout)
	}
	return longest
}
