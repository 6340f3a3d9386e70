// Package coracle lets tests compare numbers with what a C compiler makes of the
// system's headers.
package coracle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Number is a C expression and what it should be. It has no name of its own, so that
// long tables may leave the names of the fields out.
type Number = struct {
	C    string
	Want uint64
}

// Compare compiles a program that includes headers and evaluates the expressions,
// and reports each that is something else. The test is skipped where there is no C
// compiler or no such header.
func Compare(t *testing.T, headers []string, numbers []Number) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler:", err)
	}
	var src strings.Builder
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n")
	for _, h := range headers {
		fmt.Fprintf(&src, "#include <%s>\n", h)
	}
	preprocess := exec.Command(cc, "-E", "-")
	preprocess.Stdin = strings.NewReader(src.String())
	if err := preprocess.Run(); err != nil {
		t.Skipf("no headers %v: %v", headers, err)
	}
	src.WriteString("int main(void) {\n")
	for _, n := range numbers {
		fmt.Fprintf(&src, "\tprintf(\"%%llu\\n\", (unsigned long long)(%s));\n", n.C)
	}
	src.WriteString("}\n")

	lines := strings.Fields(run(t, cc, src.String()))
	if len(lines) != len(numbers) {
		t.Fatalf("%d answers to %d expressions", len(lines), len(numbers))
	}
	for i, n := range numbers {
		if lines[i] != fmt.Sprint(n.Want) {
			t.Errorf("%s: C has %s, Go %d", n.C, lines[i], n.Want)
		}
	}
}

// run compiles a program and returns what it prints.
func run(t *testing.T, cc, program string) string {
	t.Helper()
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "oracle.c"), filepath.Join(dir, "oracle")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", binary, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
