package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/farwire/farwire/internal/vmtest"
)

// errNoTest is why a job fails whose regular expression matches nothing, or all of whose
// tests were skipped: a test that did not run found nothing.
var errNoTest = errors.New("no test ran")

// judge has the jobs fail that are tests, and that ran none.
func judge(results []vmtest.Result) {
	for i := range results {
		r := &results[i]
		if pass, _, _ := tally(r.Output); r.OK() && !isScript(r.Name) && pass == 0 {
			r.Err = errNoTest
		}
	}
}

// print prints how the jobs ended, then what the failed ones wrote. It returns
// how many failed.
func (o *options) print(w io.Writer, results []vmtest.Result) (failed int) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range results {
		if !r.OK() {
			failed++
		}
		fmt.Fprintf(t, "  %s\t%s\t%v\t%s\n", r.Name, verdict(r), r.Elapsed.Round(10*time.Millisecond), count(r.Output))
	}
	t.Flush()
	for _, r := range results {
		if o.verbose || !r.OK() {
			fmt.Fprintf(w, "---- %s\n%s----\n", r.Name, r.Output)
		}
	}
	return failed
}

func verdict(r vmtest.Result) string {
	switch {
	case r.Err != nil:
		return "FAILED: " + r.Err.Error()
	case r.Status != 0:
		return fmt.Sprintf("FAILED: exit status %d", r.Status)
	}
	return "ok"
}

// count says how many tests of a test binary ended how.
func count(output []byte) string {
	pass, skip, fail := tally(output)
	if pass+skip+fail == 0 {
		return ""
	}
	return fmt.Sprintf("%d passed, %d skipped, %d failed", pass, skip, fail)
}

func tally(output []byte) (pass, skip, fail int) {
	n := func(what string) int { return bytes.Count(output, []byte("--- "+what+":")) }
	return n("PASS"), n("SKIP"), n("FAIL")
}
