package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/farwire/farwire/internal/vmtest"
)

// A suite is the tests of a package that need a real kernel.
type suite struct {
	pkg  string // from the module's root
	test string // regular expression
}

// softRoCE is what is run when nothing is named.
var softRoCE = []suite{
	{"./rdma/verbs", "^TestKernel"},
	{"./rdma/rxe", "^TestKernel"},
	{"./rdma", "^Test(ConnConformance(Tiny|Unequal)?|TLS|Yamux|BothWays|HTTP.*|PeerThatNeverReads|OpenAndClose|SimultaneousClose|CloseUnderWrite|TwoProcesses|PeerKilled.*)$"},
	{"./rdma", "^TestKernel"},
	{"./rdma", "^TestCompareSoftRoCE$"},
	{"./internal/wire", "^TestKernel"},
	{"./cmd/farwire", "^Test(Kernel|OurDriverAgainst)"},
	{"./examples/echo", "^TestKernel"},
	{"./examples/http", "^TestKernel"},
	{"./examples/streams", "^TestKernel"},
}

// connectX is what is run on the kernel's mlx5 driver.
var connectX = []suite{
	{"./rdma/mlx5", "."},
	{"./rdma/mlx5/region", "."},
	{"./rdma/mlx5/cq", "."},
	{"./rdma/mlx5/qp", "."},
	{"./rdma/mlx5/srq", "."},
	{"./rdma", "^Test(ConnConformance(Unequal)?|TLS|Yamux|BothWays|HTTP.*|PeerThatNeverReads|OpenAndClose|SimultaneousClose|CloseUnderWrite|TwoProcesses|PeerKilled.*|KernelDeviceRemoval)$"},
	{"./cmd/farwire", "^TestOurDriverAgainst"},
	{"./examples/echo", "^TestKernel"},
	{"./examples/http", "^TestKernel"},
	{"./examples/streams", "^TestKernel"},
}

// These make the device that tests use: of Soft-RoCE, which FARWIRE_RXE names, or of the
// kernel's mlx5 driver, which FARWIRE_MLX5 names.
var (
	//go:embed setup.sh
	setupRXE string
	//go:embed setup_mlx5.sh
	setupMLX5 string
)

// prepare builds the jobs.
func (o *options) prepare(ctx context.Context, names []string, temp string) error {
	suites := softRoCE
	o.config.Setup, o.config.Env = setupRXE, []string{"FARWIRE_RXE=rxe0"}
	if o.nic != "" {
		suites = connectX
		o.config.Setup, o.config.Env, o.config.Modules = setupMLX5, []string{"FARWIRE_MLX5=mlx5_0"}, []string{"mlx5_ib"}
	}
	if o.setup != "" {
		script, err := os.ReadFile(o.setup)
		if err != nil {
			return err
		}
		o.config.Setup, o.config.Env = string(script), nil
	}
	list := suites
	if len(names) > 0 {
		list = nil
	}
	for _, n := range names {
		if isScript(n) {
			o.config.Jobs = append(o.config.Jobs, vmtest.Job{Name: n, Program: n, Timeout: o.timeout})
			continue
		}
		list = append(list, suite{n, o.test})
	}
	for i, s := range list {
		job, err := s.build(ctx, filepath.Join(temp, fmt.Sprintf("%d.test", i)), o.timeout)
		if err != nil {
			return err
		}
		o.config.Jobs = append(o.config.Jobs, job)
	}
	return nil
}

func isScript(job string) bool { return strings.HasSuffix(job, ".sh") }

// margin is what a test binary has to say where it hangs, before it is killed.
const margin = 10 * time.Second

// build builds the suite's test binary.
func (s suite) build(ctx context.Context, to string, timeout time.Duration) (vmtest.Job, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", to, s.pkg)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return vmtest.Job{}, fmt.Errorf("build the tests of %s: %w\n%s", s.pkg, err, out)
	}
	job := vmtest.Job{Name: s.pkg, Program: to, Timeout: timeout + margin,
		Args: []string{"-test.v", "-test.run=" + s.test, "-test.timeout=" + timeout.String()}}
	if fixtures := filepath.Join(s.pkg, "testdata"); exists(fixtures) {
		job.Files = []string{fixtures}
	}
	return job, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
