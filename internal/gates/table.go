package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// table prints how gates went, a line each.
type table struct {
	out    io.Writer
	passed int
	failed []error
	start  time.Time
}

const lineFormat = "%-64s %-5s %8s  %s\n"

func newTable(out io.Writer) *table {
	fmt.Fprintf(out, lineFormat, "gate", "link", "time", "result")
	return &table{out: out, start: time.Now()}
}

func (t *table) add(g gate, l layer, r result) {
	said := r.passed
	if r.err == nil {
		t.passed++
	} else {
		said = "FAILED"
		t.failed = append(t.failed, fmt.Errorf("%s, %s: %w", g.title(), l, r.err))
	}
	fmt.Fprintf(t.out, lineFormat, g.title(), l, fmt.Sprintf("%.1fs", r.took.Seconds()), said)
}

// end tells of the failures.
func (t *table) end() error {
	fmt.Fprintf(t.out, "%d passed, %d failed in %.0fs\n", t.passed, len(t.failed), time.Since(t.start).Seconds())
	if t.passed+len(t.failed) == 0 {
		return errors.New("no such gate")
	}
	return errors.Join(t.failed...)
}
