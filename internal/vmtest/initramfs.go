package vmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// baseModules are loaded in every guest, if the kernel has them as modules.
var baseModules = []string{"crc32_generic", "crc32c_generic",
	"ib_core", "ib_uverbs", "ib_umad", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm",
	"rdma_rxe", "dummy", "veth", "8021q", "sch_netem", "configfs"}

// writeInitramfs writes the guest's root: the programs, then what is this run's
// own. The kernel unpacks archives one after the other.
func writeInitramfs(ctx context.Context, cfg *Config, name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if cfg.Userland != "" {
		if err := appendFile(f, cfg.Userland); err != nil {
			return err
		}
	}
	t, err := cfg.tree(ctx, filepath.Dir(name))
	if err != nil {
		return err
	}
	return t.write(f)
}

// tree is what a run adds to the programs. temp is a folder for what is built.
func (cfg *Config) tree(ctx context.Context, temp string) (tree, error) {
	t := tree{}
	t.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/:/bin/sh\n"))
	t.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	init, err := buildGuest(ctx, filepath.Join(temp, "init"))
	if err != nil {
		return nil, err
	}
	t.file("init", 0o755, init)
	p := plan.Plan{Env: append([]string{"FARWIRE_VM=" + cfg.Kernel.Name}, cfg.Env...)}
	modules, err := cfg.Kernel.modules(append(append([]string(nil), baseModules...), cfg.Modules...))
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		file := "lib/modules/" + m.name + ".ko"
		t.file(file, 0o644, m.data)
		p.Modules = append(p.Modules, "/"+file)
	}
	if cfg.Setup != "" {
		t.file(strings.TrimPrefix(plan.SetupFile, "/"), 0o755, []byte(cfg.Setup))
		p.Setup = []string{"/bin/sh", "-eu", plan.SetupFile}
	}
	for i, j := range cfg.Jobs {
		packed, err := j.pack(t, i)
		if err != nil {
			return nil, err
		}
		p.Jobs = append(p.Jobs, packed)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	t.file(strings.TrimPrefix(plan.File, "/"), 0o644, text)
	return t, nil
}

// buildGuest builds the first process of a guest.
func buildGuest(ctx context.Context, to string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "github.com/farwire/farwire/internal/vmtest/guest")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	if _, err := output(cmd); err != nil {
		return nil, fmt.Errorf("build the guest: %w", err)
	}
	return os.ReadFile(to)
}

func appendFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
