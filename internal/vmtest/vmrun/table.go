package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/farwire/farwire/internal/vmtest"
)

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
	pass, skip, fail := bytes.Count(output, []byte("--- PASS:")), bytes.Count(output, []byte("--- SKIP:")), bytes.Count(output, []byte("--- FAIL:"))
	if pass+skip+fail == 0 {
		return ""
	}
	return fmt.Sprintf("%d passed, %d skipped, %d failed", pass, skip, fail)
}
