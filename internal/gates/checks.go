package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/farwire/farwire/rdma/softnic"
)

// total adds up one counter of all NICs.
func (r *ran) total(counter func(softnic.Counters) uint64) (sum uint64) {
	for _, c := range r.counters {
		sum += counter(c)
	}
	return sum
}

// strict checks that the NICs found no fault with what they were told, lost
// nothing and hold nothing. An arm may come stale: where another one's doorbell led
// the NIC to its record, it is answered before its own doorbell is seen.
func strict(r *ran) error {
	for name, c := range r.counters {
		for what, n := range map[string]uint64{
			"bad doorbells":             c.BadDoorbells,
			"completion queue overruns": c.Overruns,
			"malformed packets":         c.DropMalformed + c.DropSize + c.DropTransport,
			"packets to nowhere":        c.DropUnreachable,
			"packets of a full backlog": c.DropOverflow,
		} {
			if n != 0 {
				return fmt.Errorf("%s: %d %s", name, n, what)
			}
		}
		if err := empty(c); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// empty checks that a NIC has no objects left.
func empty(c softnic.Counters) error {
	left := []int{c.Contexts, c.UARs, c.PDs, c.MRs, c.CQs, c.QPs, c.SRQs, c.AHs, c.EventFiles, int(c.PinnedBytes)}
	for _, n := range left {
		if n != 0 {
			return fmt.Errorf("contexts, pages, domains, regions, completion queues, queue pairs, receive queues, "+
				"address handles, event descriptors and pinned bytes left: %d", left)
		}
	}
	return nil
}

// clean checks that no completion had an error.
func clean(r *ran) error {
	if n := r.total(func(c softnic.Counters) uint64 { return c.ErrorCompletions }); n != 0 {
		return fmt.Errorf("%d completions with an error", n)
	}
	return nil
}

// says checks that the programs said something so many times.
func says(times int, text string) check {
	return func(r *ran) error {
		if n := strings.Count(r.said, text); n != times {
			return fmt.Errorf("%q was said %d times, not %d", text, n, times)
		}
		return nil
	}
}

// saysOn is says, once, on one link layer.
func saysOn(l layer, text string) check {
	return func(r *ran) error {
		if r.layer != l {
			return nil
		}
		return says(1, text)(r)
	}
}

// sizes checks that figures for so many sizes of messages were printed.
func sizes(n int) check {
	figures := regexp.MustCompile(`(?m)^ ([0-9]+) +[0-9]+ +[0-9.]`)
	return func(r *ran) error {
		different := map[string]bool{}
		for _, m := range figures.FindAllStringSubmatch(r.said, -1) {
			different[m[1]] = true
		}
		if len(different) != n {
			return fmt.Errorf("figures for %d sizes, not %d", len(different), n)
		}
		return nil
	}
}

// counted checks that the NICs have counted something.
func counted(what string, counter func(softnic.Counters) uint64) check {
	return func(r *ran) error {
		if r.total(counter) == 0 {
			return fmt.Errorf("no %s were counted", what)
		}
		return nil
	}
}

var (
	// A message between NICs of one process may go without packets, and is counted then by itself.
	packets    = counted("packets", func(c softnic.Counters) uint64 { return c.PacketsReceived + c.Passed })
	events     = counted("completion events", func(c softnic.Counters) uint64 { return c.CompletionEvents })
	blueFlames = counted("entries with their doorbell", func(c softnic.Counters) uint64 { return c.BlueFlames })
)

// noBlueFlame checks that no entry came with its doorbell.
func noBlueFlame(r *ran) error {
	if blueFlames(r) == nil {
		return fmt.Errorf("entries came with their doorbells")
	}
	return nil
}
