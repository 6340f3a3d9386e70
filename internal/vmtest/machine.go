package vmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// A machine is a running QEMU.
type machine struct {
	cmd     *exec.Cmd
	console *console
	jobs    int
	reports chan plan.Report // closed when there will be no more
	quit    chan struct{}    // closed by end
	ended   sync.WaitGroup
	once    sync.Once // of end
}

const defaultQEMU = "qemu-system-x86_64"

// boot starts a machine. end must be called.
func boot(ctx context.Context, cfg *Config, initramfs string) (*machine, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	program := cfg.QEMU
	if program == "" {
		program = defaultQEMU
	}
	m := &machine{jobs: len(cfg.Jobs), console: &console{copy: cfg.Console}, reports: make(chan plan.Report), quit: make(chan struct{})}
	m.cmd = exec.CommandContext(ctx, program, cfg.qemuArgs(initramfs)...)
	m.cmd.Stdout, m.cmd.Stderr = m.console, m.console
	m.cmd.ExtraFiles = []*os.File{w} // descriptor 3
	err = m.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	m.ended.Go(func() { m.read(r) })
	return m, nil
}

// qemuArgs makes a PC with two serial lines: the kernel's console on standard
// output and the guest's reports on descriptor 3. q35 boots reliably where
// microvm may hang; Nehalem is what emulation does well.
func (cfg *Config) qemuArgs(initramfs string) []string {
	cpus, memory, accel := cfg.CPUs, cfg.Memory, "tcg,thread=multi"
	if cpus == 0 {
		cpus = 2
	}
	if cpus == 1 {
		accel = "tcg,thread=single"
	}
	if memory == 0 {
		memory = 1024
	}
	// A fault in the kernel ends the machine: QEMU exits instead of rebooting.
	cmdline := "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic reboot=t random.trust_cpu=on mitigations=off nokaslr tsc=reliable " +
		cfg.KernelArgs
	args := []string{"-machine", "q35", "-accel", accel, "-cpu", "Nehalem", "-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-add-fd", "fd=3,set=1", "-chardev", "file,id=reports,path=/dev/fdset/1,append=on", "-serial", "chardev:reports",
		"-kernel", filepath.Join(cfg.Kernel.dir, "vmlinux"), "-initrd", initramfs, "-append", cmdline}
	for i, socket := range cfg.Devices {
		if i == 0 { // the servers reach its memory
			args = append(args, "-machine", "memory-backend=shared",
				"-object", fmt.Sprintf("memory-backend-memfd,id=shared,size=%dM,share=on", memory))
		}
		args = append(args, "-device", fmt.Sprintf(`{"driver":"vfio-user-pci","socket":{"type":"unix","path":%q}}`, socket))
	}
	return append(args, cfg.QEMUArgs...)
}

// read passes reports on until the machine's end of the pipe is closed.
func (m *machine) read(r io.ReadCloser) {
	defer r.Close()
	defer close(m.reports)
	in := json.NewDecoder(r)
	for {
		var report plan.Report
		if err := in.Decode(&report); err != nil || report.Job < 0 || report.Job >= max(m.jobs, 1) {
			return
		}
		select {
		case m.reports <- report:
		case <-m.quit:
			return
		}
	}
}

// report waits for a report.
func (m *machine) report(ctx context.Context, limit time.Duration) (plan.Report, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r, ok := <-m.reports:
		if !ok {
			return r, errors.New("it ended before its jobs did")
		}
		return r, nil
	case <-timer.C:
		return plan.Report{}, fmt.Errorf("it said nothing for %v", limit)
	case <-ctx.Done():
		return plan.Report{}, ctx.Err()
	}
}

// end ends the machine, if it has not been ended. Its console is complete then.
func (m *machine) end() {
	m.once.Do(func() {
		close(m.quit)
		_ = m.cmd.Process.Kill() // it may have ended by itself
		_ = m.cmd.Wait()
		m.ended.Wait()
	})
}

// A console keeps the end of what a kernel said.
type console struct {
	mu   sync.Mutex
	text []byte
	copy io.Writer
}

// consoleKept is how many bytes of a console are kept.
const consoleKept = 64 << 10

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	c.text = c.text[max(0, len(c.text)-consoleKept):]
	if c.copy != nil {
		return c.copy.Write(b)
	}
	return len(b), nil
}

// tail is the console's last lines: a panic with its stack is some fifty.
func (c *console) tail() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.ReplaceAll(tail(c.text, 100), []byte("\r"), nil)
}
