//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// mounts are the file systems that programs expect. Some kernels lack configfs
// until a module brings it.
var mounts = []struct {
	kind, dir string
	optional  bool
}{
	{"proc", "/proc", false},
	{"sysfs", "/sys", false},
	{"devtmpfs", "/dev", false},
	{"devpts", "/dev/pts", false},
	{"tmpfs", "/dev/shm", false},
	{"tmpfs", "/run", false},
	{"tmpfs", "/tmp", false},
	{"debugfs", "/sys/kernel/debug", true},
	{"configfs", "/sys/kernel/config", true},
}

func mountAll() error {
	for _, m := range mounts {
		if !m.optional {
			if err := os.MkdirAll(m.dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !m.optional {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.Symlink("/proc/self/fd", "/dev/fd"); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// prepare makes the machine ready for the jobs.
func prepare(p plan.Plan) error {
	for name, value := range map[string]string{"PATH": "/sbin:/bin:/usr/sbin:/usr/bin:" + applets, "HOME": "/tmp"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for _, m := range p.Modules {
		if err := load(m); err != nil {
			return fmt.Errorf("load %s: %w", filepath.Base(m), err)
		}
	}
	if err := linkApplets(); err != nil {
		return err
	}
	for _, kv := range p.Env {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if len(p.Setup) == 0 {
		return nil
	}
	if out, err := exec.Command(p.Setup[0], p.Setup[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("set-up: %w\n%s", err, out)
	}
	return nil
}

// load loads a module. One that is there already, or built in, is no error.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// applets is where busybox's commands are, last in PATH so that the real ones
// come first. (/bin/sh is dash, for busybox's shell prefers its own.)
const applets = "/busybox"

func linkApplets() error {
	const busybox = "/bin/busybox"
	if _, err := os.Stat(busybox); err != nil {
		return nil // a machine without the programs
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	if err := os.MkdirAll(applets, 0o755); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if err := os.Symlink(busybox, filepath.Join(applets, name)); err != nil {
			return err
		}
	}
	return nil
}
