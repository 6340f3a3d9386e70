package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/farwire/farwire/internal/vmtest"
)

// matrix is how each test ended on each kernel.
type matrix struct {
	kernels []string
	tests   []string // in the order in which they were first seen
	ended   map[[2]string]string
}

// ending is a line of a test binary about a test or a test in it, two deep at most.
var ending = regexp.MustCompile(`(?m)^( {4})?--- (PASS|FAIL|SKIP): (\S+)`)

var words = map[string]string{"PASS": "yes", "FAIL": "NO", "SKIP": "-"}

// add takes in what the jobs on a kernel wrote. A test that has tests in it is told by
// those.
func (m *matrix) add(kernel string, results []vmtest.Result) {
	if m.ended == nil {
		m.ended = map[[2]string]string{}
	}
	m.kernels = append(m.kernels, kernel)
	for _, r := range results {
		found := ending.FindAllStringSubmatch(string(r.Output), -1)
		for i, f := range found {
			if f[1] == "" && i+1 < len(found) && found[i+1][1] != "" {
				continue
			}
			name := strings.TrimPrefix(f[3], "TestKernel")
			if !slices.Contains(m.tests, name) {
				m.tests = append(m.tests, name)
			}
			m.ended[[2]string{kernel, name}] = words[f[2]]
		}
	}
}

// print prints the table, as Markdown. A test that did not end is a question.
func (m *matrix) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 1, ' ', 0)
	fmt.Fprintf(t, "| test \t| %s \t|\n", strings.Join(m.kernels, " \t| "))
	fmt.Fprintf(t, "|---\t%s|\n", strings.Repeat("|---\t", len(m.kernels)))
	for _, name := range m.tests {
		fmt.Fprintf(t, "| %s \t", name)
		for _, k := range m.kernels {
			ended, ok := m.ended[[2]string{k, name}]
			if !ok {
				ended = "?"
			}
			fmt.Fprintf(t, "| %s \t", ended)
		}
		fmt.Fprintln(t, "|")
	}
	t.Flush()
}
