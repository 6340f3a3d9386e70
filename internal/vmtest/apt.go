package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// apt is a state of apt of its own for some suites, in a folder: an empty machine
// that has nothing installed, so that a package's dependencies are complete and
// neither locks nor lists of the real machine are touched. Downloads are verified
// by apt, against Debian's keyring.
type apt struct {
	dir     string
	options []string
}

// debianKeyring is where package debian-archive-keyring has the suites' keys.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// newAPT makes the state in dir and reads the suites' lists. Of packages that several
// have the last one's is taken.
func newAPT(ctx context.Context, dir string, suites ...string) (*apt, error) {
	mirror, err := configuredMirror(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	var sources strings.Builder
	for _, suite := range suites {
		fmt.Fprintf(&sources, "deb [signed-by=%s] %s %s main\n", debianKeyring, mirror, suite)
	}
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(sources.String()), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, err
	}
	a := &apt{dir: dir}
	for _, o := range []string{
		"Dir::Etc::sourcelist=" + filepath.Join(dir, "sources.list"), "Dir::Etc::sourceparts=/dev/null",
		"Dir::State=" + dir, "Dir::State::lists=" + filepath.Join(dir, "lists"), "Dir::State::status=" + filepath.Join(dir, "status"),
		"Dir::Cache=" + dir, "Dir::Cache::archives=" + filepath.Join(dir, "archives"),
		"APT::Default-Release=" + suites[len(suites)-1], "Debug::NoLocking=1", "APT::Sandbox::User=root", "APT::Architecture=amd64", "APT::Architectures=amd64",
		"Acquire::Languages=none", "Acquire::Retries=3",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
	} {
		a.options = append(a.options, "-o", o)
	}
	_, err = a.run(ctx, "apt-get", "update")
	return a, err
}

// configuredMirror is the address of the mirror that this machine's apt gets
// Debian from.
func configuredMirror(ctx context.Context) (string, error) {
	out, err := output(exec.CommandContext(ctx, "apt-get", "indextargets", "--no-release-info",
		"--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"))
	if err != nil {
		return "", fmt.Errorf("find the Debian mirror: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		uri, suite, _ := strings.Cut(strings.TrimSpace(line), " ")
		if suite != "" && !strings.ContainsAny(suite, "-/") && strings.Contains(uri, "debian") { // not bookworm-security
			return uri, nil
		}
	}
	return "", errors.New("find the Debian mirror: apt has none configured")
}

// imageOf is the package that a package such as linux-image-amd64 stands for.
func (a *apt) imageOf(ctx context.Context, meta string) (string, error) {
	out, err := a.run(ctx, "apt-cache", "depends", meta)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			return "linux-image-" + p, nil
		}
	}
	return "", fmt.Errorf("%s depends on no kernel", meta)
}

// has says whether the suite has a package.
func (a *apt) has(ctx context.Context, pkg string) bool {
	_, err := a.run(ctx, "apt-cache", "show", pkg)
	return err == nil
}

// download gets packages without what they depend on, and returns the archives.
func (a *apt) download(ctx context.Context, packages ...string) ([]string, error) {
	if _, err := a.run(ctx, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(a.dir, "*.deb"))
}

// downloadAll gets packages with everything they depend on.
func (a *apt) downloadAll(ctx context.Context, packages ...string) ([]string, error) {
	args := append([]string{"-y", "--no-install-recommends", "--download-only", "install"}, packages...)
	if _, err := a.run(ctx, "apt-get", args...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(a.dir, "archives", "*.deb"))
}

func (a *apt) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, append(append([]string{"-qq"}, a.options...), args...)...)
	cmd.Dir = a.dir
	return output(cmd)
}

// output runs a command; its error has what the command complained of.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, tail(stderr.Bytes(), 10))
	}
	return out, nil
}

// tail is the last n lines of text.
func tail(text []byte, n int) []byte {
	text = bytes.TrimSpace(text)
	for at := len(text); at > 0; n-- {
		if n == 0 {
			return text[at+1:]
		}
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return text
}
