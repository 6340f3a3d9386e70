package farwire_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's program does what it says, on a port that is free here.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, "a program in README.md")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	program := strings.ReplaceAll(string(block[1]), "127.0.0.1:7471", ln.Addr().String())
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.Command("go", "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, fmt.Sprintf("200 OK %d bytes over a queue pair\n", len(readme)), string(out))
}

// The programs that the README and the documents name are there, and so are the pages
// that they point to.
func TestReadmeReferences(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^):#]+)[^)]*\)`)
	run := regexp.MustCompile(`go run (\./\S+)`)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllSubmatch(text, -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(page), string(m[1])), page)
		}
		for _, m := range run.FindAllSubmatch(text, -1) {
			require.DirExists(t, string(m[1]), page)
		}
	}
}

// The tests that docs/testing.md names are there.
func TestDocsTestsExist(t *testing.T) {
	page, err := os.ReadFile("docs/testing.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 50)
	for _, m := range named {
		files, err := filepath.Glob(m[1] + "/*_test.go")
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc "+m[2]+"(")
		}
		require.True(t, found, "%s has no %s", m[1], m[2])
	}
}
