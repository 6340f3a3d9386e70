package main

import (
	"bufio"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pyverbsGate is rdma-core's own test suite, all of it. Debian's python3-pyverbs has
// it as documentation: the files of the source package of the same version. Each
// module has a process of its own; what a test that crashes or hangs leaves undone is
// taken up by another.
type pyverbsGate struct {
	version string // of rdma-core
}

const (
	suite  = "/usr/share/doc/rdma-core/tests"
	python = "/usr/bin/python3" // the one that has Debian's modules
)

//go:embed run_module.py
var runModule []byte

func (g *pyverbsGate) title() string   { return "pyverbs test suite of rdma-core " + g.version }
func (g *pyverbsGate) layers() []layer { return []layer{roce, ib} }

func (g *pyverbsGate) try(ctx context.Context, t *tool, l layer) (string, error) {
	expected, _, err := readExpectations(g.version)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(t.dir, "pyverbs")
	modules, err := unpackSuite(dir)
	if err != nil {
		return "", err
	}
	went := map[string]verdict{}
	var faults []error
	for _, m := range modules {
		faults = append(faults, runTests(ctx, t, l, dir, m, went))
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
	for _, d := range expected.differences(l, went) {
		faults = append(faults, errors.New(d))
	}
	count := map[string]int{}
	for _, v := range went {
		count[v.outcome]++
	}
	return fmt.Sprintf("%d passed, %d skipped as listed", count["pass"], count["skip"]), errors.Join(faults...)
}

// unpackSuite puts the suite into a folder, with what runs it, and lists its modules.
func unpackSuite(dir string) (modules []string, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "tests"), 0o755); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(suite)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		name := strings.TrimSuffix(f.Name(), ".gz")
		if err := unpack(filepath.Join(suite, f.Name()), filepath.Join(dir, "tests", name)); err != nil {
			return nil, err
		}
		if module, ok := strings.CutSuffix(name, ".py"); ok && strings.HasPrefix(name, "test_") {
			modules = append(modules, module)
		}
	}
	return modules, os.WriteFile(filepath.Join(dir, "run_module.py"), runModule, 0o644)
}

// unpack copies a file, decompressed.
func unpack(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r := io.Reader(f)
	if strings.HasSuffix(from, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, b, 0o644)
}

// runTests runs the tests of a module, in a process, and in another one what a crash
// left undone. Its error is not about one test.
func runTests(ctx context.Context, t *tool, l layer, dir, module string, went map[string]verdict) error {
	var tests []string // none: all
	for {
		r, p, err := runOnce(ctx, t, l, dir, append([]string{module}, tests...), went)
		switch {
		case err == nil:
			err = strict(r)
			fallthrough
		case p.running == "":
			if err != nil {
				return fmt.Errorf("%s: %w", module, err)
			}
			return nil
		}
		went[p.running] = verdict{"crash", err.Error()}
		if tests = slices.Sorted(maps.Keys(p.left)); len(tests) == 0 {
			return nil
		}
	}
}

// runOnce runs a module, or tests of it, in one process, and adds how they went.
func runOnce(ctx context.Context, t *tool, l layer, dir string, what []string, went map[string]verdict) (*ran, progress, error) {
	records := filepath.Join(dir, "records")
	if err := os.Remove(records); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, progress{}, err
	}
	args := append([]string{"--", python, "run_module.py", "--dev", "mlx5_0", records}, what...)
	r, failed := t.run(ctx, l, dir, "", args)
	p, err := readRecords(records, went)
	return r, p, errors.Join(failed, err)
}

// progress is how far a process came.
type progress struct {
	running string // the test that had begun and not ended
	left    map[string]bool
}

// readRecords reads what run_module.py has written.
func readRecords(file string, went map[string]verdict) (p progress, err error) {
	f, err := os.Open(file)
	if err != nil {
		return p, err
	}
	defer f.Close()
	p.left = map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record struct {
			Tests               []string
			Start               string
			ID, Outcome, Reason string
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return p, fmt.Errorf("%s: %w", file, err)
		}
		for _, test := range record.Tests {
			p.left[test] = true
		}
		switch {
		case record.Start != "":
			p.running = record.Start
			delete(p.left, p.running)
		case record.ID != "":
			p.running = ""
			went[record.ID] = verdict{record.Outcome, record.Reason}
		}
	}
	return p, lines.Err()
}
