package vmtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// A Job is a program that a guest runs as root, in a folder of its own.
type Job struct {
	Name    string
	Program string // on this machine: a static binary for linux/amd64, or a script with a #! line
	Args    []string
	Env     []string
	Files   []string      // put beside it, under their base names; a folder with all it has
	Timeout time.Duration // 0 is two minutes
}

// A Result is how a job ended.
type Result struct {
	Name    string
	Status  int    // exit status; -1 if it was killed or did not run
	Output  []byte // standard output and error
	Elapsed time.Duration
	Err     error // why there is no exit status of its own; nil if there is
}

// OK says whether the job ran and ended with status 0.
func (r Result) OK() bool { return r.Err == nil && r.Status == 0 }

const defaultTimeout = 2 * time.Minute

// pack adds the job's files to an initramfs as those of job number i.
func (j Job) pack(t tree, i int) (plan.Job, error) {
	dir := "jobs/" + strconv.Itoa(i)
	for _, f := range append([]string{j.Program}, j.Files...) {
		if err := t.copyIn(f, dir); err != nil {
			return plan.Job{}, fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	timeout := j.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	command := append([]string{"/" + dir + "/" + filepath.Base(j.Program)}, j.Args...)
	return plan.Job{Dir: "/" + dir, Command: command, Env: j.Env, Timeout: timeout}, nil
}

// copyIn copies a file or folder of this machine into a folder of the tree.
// Whatever is executable, or starts like a script, can be run.
func (t tree) copyIn(from, dir string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(from), p)
		if err != nil {
			return err
		}
		name := dir + "/" + filepath.ToSlash(rel)
		if _, taken := t[name]; taken {
			return fmt.Errorf("two files are named %s", rel)
		}
		perm := uint32(info.Mode().Perm())
		if bytes.HasPrefix(data, []byte("#!")) {
			perm |= 0o111
		}
		t.file(name, perm, data)
		return nil
	})
}
