package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// operation is one row of the comparison. before makes the NIC and the rings ready
// for a number of calls of run, and after brings them back to where they were.
type operation struct {
	name    string
	entries int // that one call is for: the results are per entry
	calls   int // in a row, when time is taken
	before  func(calls int) error
	run     func()
	after   func(calls int) error
}

// How often an operation is run: before anything is measured, counted, and timed.
// The rings have gone round several times by then.
const (
	warmCalls = 4000
	counts    = 3
	timings   = 400
)

// work does every operation, and writes a line with its name for each: in the mode
// count, its entries and how many times it did it between two breakpoints, and in
// the mode time, the least nanoseconds for an entry.
func work(mode string, out io.Writer) error {
	measure, ok := map[string]func(*operation) (string, error){"count": count, "time": timed}[mode]
	if !ok {
		return fmt.Errorf("mode %q is neither count nor time", mode)
	}
	debug.SetGCPercent(-1) // nothing is to be collected, and a collection would be counted
	d, err := newDriver()
	if err != nil {
		return err
	}
	for _, o := range d.operations() {
		err := o.times(warmCalls/o.entries/o.calls+1, func() { o.repeat() })
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		result, err := measure(&o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		fmt.Fprintln(out, o.name, result)
	}
	return d.close()
}

// times does n rounds of the operation's calls.
func (o *operation) times(n int, round func()) error {
	for range n {
		if err := o.before(o.calls); err != nil {
			return err
		}
		round()
		if err := o.after(o.calls); err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) repeat() {
	for range o.calls {
		o.run()
	}
}

// count does the operation between breakpoints, which package trace.go counts from
// and to.
func count(o *operation) (string, error) {
	once := *o
	once.calls = 1
	err := once.times(counts, func() {
		runtime.Gosched() // it may be due
		runtime.Breakpoint()
		o.run()
		runtime.Breakpoint()
	})
	return fmt.Sprint(o.entries, counts), err
}

func timed(o *operation) (string, error) {
	var took []time.Duration
	err := o.times(timings, func() {
		start := time.Now()
		o.repeat()
		took = append(took, time.Since(start))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.2f", float64(slices.Min(took).Nanoseconds())/float64(o.calls*o.entries)), nil
}
