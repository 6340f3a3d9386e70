package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// report gives each operation the counts that are its own.
func report(said string, counted []int, stdout io.Writer) error {
	marks := 0 // instructions of a round of an operation that does nothing
	for line := range strings.Lines(said) {
		var name string
		var entries, n int
		if _, err := fmt.Sscan(line, &name, &entries, &n); err != nil || n < 1 || entries < 1 || n > len(counted) {
			return fmt.Errorf("trace: %d counts are left for %q", len(counted), line)
		}
		// Something of the runtime's may have come between, once: the middle one is of
		// the operation alone.
		own := slices.Sorted(slices.Values(counted[:n]))[n/2]
		counted = counted[n:]
		if name == empty {
			marks = own
		}
		fmt.Fprintf(stdout, "%s %.2f\n", name, float64(own-marks)/float64(entries))
	}
	if len(counted) > 0 {
		return fmt.Errorf("trace: %d counts are of no operation", len(counted))
	}
	return nil
}
