package rdma

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
)

// TestOneWrite makes the write that docs/life-of-a-write.md follows.
func TestOneWrite(t *testing.T) {
	client, server := loopback(t, softnic.Config{Packets: true}).pair(t)
	sent, got := make([]byte, 64), make([]byte, 64)
	sent[63] = 1
	_, err := client.Write(sent)
	require.NoError(t, err)
	_, err = io.ReadFull(server, got)
	require.NoError(t, err)
	require.Equal(t, sent, got)
}

// TestLifeOfAWrite runs TestOneWrite under the coverage tool and checks that each
// function the document names was part of it.
func TestLifeOfAWrite(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs/life-of-a-write.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| \\[(\\S+)\\]\\(../(\\S+)\\) \\| `(\\w+)` \\|").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 40, "rows of the document")

	ran := coverOneWrite(t, root)
	for _, row := range rows {
		file, function := row[1], row[3]
		require.Equal(t, file, row[2], "text and target of a link")
		first, last, ok := bodyOf(t, filepath.Join(root, file), function)
		switch {
		case !ok:
			t.Errorf("%s: no function %s", file, function)
		case first == 0: // assembly, of which there is no coverage
		case !ran.within(file, first, last):
			t.Errorf("%s: %s was not run", file, function)
		}
	}
}

// bodyOf returns the lines of the functions and methods of that name in a file, 0 for
// one that is written in assembly.
func bodyOf(t *testing.T, path, name string) (first, last int, ok bool) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Name.Name != name {
			continue
		}
		if f.Body == nil {
			return 0, 0, true
		}
		return files.Position(f.Body.Pos()).Line, files.Position(f.Body.End()).Line, true
	}
	return 0, 0, false
}

// coverage is the blocks of code that were run: by file, first and last line.
type coverage map[string][][2]int

func (c coverage) within(file string, first, last int) bool {
	for _, block := range c[file] {
		if first <= block[0] && block[1] <= last {
			return true
		}
	}
	return false
}

func coverOneWrite(t *testing.T, root string) coverage {
	profile := filepath.Join(t.TempDir(), "profile")
	cmd := exec.Command("go", "test", "-run", "^TestOneWrite$", "-count=1", "-coverpkg=./...", "-coverprofile="+profile, "./rdma")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(profile)
	require.NoError(t, err)
	ran := coverage{}
	line := regexp.MustCompile(`^github.com/farwire/farwire/(\S+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)
	for s := range strings.Lines(string(text)) {
		m := line.FindStringSubmatch(strings.TrimSpace(s))
		if m == nil || m[4] == "0" {
			continue
		}
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[3])
		ran[m[1]] = append(ran[m[1]], [2]int{first, last})
	}
	return ran
}
