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

// suites are what is run when nothing is named.
var suites = []suite{
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

// setup makes the Soft-RoCE device that FARWIRE_RXE names.
//
//go:embed setup.sh
var setup string

const rxe = "FARWIRE_RXE=rxe0"

// prepare builds the jobs.
func (o *options) prepare(ctx context.Context, names []string, temp string) error {
	o.config.Setup, o.config.Env = setup, []string{rxe}
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
