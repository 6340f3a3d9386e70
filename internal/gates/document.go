package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The marks of the document's part that is written from here.
const (
	beginMark = "<!-- gates -->\n"
	endMark   = "<!-- end of gates -->\n"
)

// updateDocument writes what passed into a document, between the marks.
func updateDocument(file string, found versions) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, after, err := cutMarks(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	text, err := markdown(found)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+text+after), 0o644)
}

// cutMarks takes a document apart; the marks stay with what is around them.
func cutMarks(document string) (before, between, after string, err error) {
	begin, end := strings.Index(document, beginMark), strings.Index(document, endMark)
	if begin < 0 || end < begin {
		return "", "", "", fmt.Errorf("no marks %q and %q", beginMark, endMark)
	}
	begin += len(beginMark)
	return document[:begin], document[begin:end], document[end:], nil
}

// markdown is what is true once every gate has passed.
func markdown(found versions) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Against: %s.\n\n", found)
	b.WriteString("| gate | Ethernet | InfiniBand | what runs |\n|---|---|---|---|\n")
	for _, list := range [][]programGate{deviceGates, pingpongGates, perftestGates} {
		for _, g := range list {
			fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", g.title(), mark(&g, roce), mark(&g, ib), g.summary())
		}
	}
	expected, sections, err := readExpectations(found.upstream("python3-pyverbs"))
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "| rdma-core's own tests (pyverbs) | %s | %s | every test of `%s` |\n\n", expected.summary(roce), expected.summary(ib), suite)
	b.WriteString("Why tests of rdma-core are skipped:\n\n| tests | what they need |\n|---|---|\n")
	for _, s := range sections {
		switch s.outcome {
		case "skip":
			fmt.Fprintf(&b, "| %d | %s |\n", s.tests, s.reason)
		case "machine":
			fmt.Fprintf(&b, "| %d | of the machine: %s; they pass, or are skipped |\n", s.tests, s.reason)
		}
	}
	return b.String(), nil
}

func mark(g gate, l layer) string {
	if slices.Contains(g.layers(), l) {
		return "pass"
	}
	return ""
}

// summary is what a reader would type, without what is the same for all.
func (g *programGate) summary() string {
	s := g.program
	if g.flags != "" {
		s = "farwire run " + g.flags + " -- " + s
	}
	if g.env != "" {
		s = g.env + " " + s
	}
	return s
}

// summary counts the tests for a link layer.
func (e expectations) summary(l layer) string {
	count := map[string]int{}
	for _, s := range e[l] {
		count[s.outcome]++
	}
	return fmt.Sprintf("%d pass, %d skip, %d either", count["pass"], count["skip"], count["machine"])
}
