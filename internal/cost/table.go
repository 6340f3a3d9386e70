package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// results are what was measured, by program, mode and operation.
type results map[key]float64

type key struct{ who, mode, operation string }

// take reads a line for each operation: its name and the figure.
func (r results) take(who, mode, said string) error {
	for line := range strings.Lines(said) {
		var name string
		var v float64
		if _, err := fmt.Sscan(line, &name, &v); err != nil {
			return fmt.Errorf("%s %s: %q: %w", who, mode, line, err)
		}
		r[key{who, mode, name}] = v
	}
	return nil
}

// rows are the operations, and what the table says they are.
var rows = []struct{ operation, text string }{
	{"post", "post a SEND and ring"},
	{"post-32", "post 32 WRITEs, one doorbell: each"},
	{"post-inline", "post 64 bytes inline and ring"},
	{"receive", "post a receive"},
	{"receive-32", "post 32 receives: each"},
	{"poll-send", "poll 1 completion of a SEND"},
	{"poll-send-16", "poll 16 of them: each"},
	{"poll-receive", "poll 1 completion of a receive"},
	{"poll-receive-16", "poll 16 of them: each"},
}

// newer marks operations by the newer of libibverbs' interfaces, where there is one.
const newer = "/ex"

// figures are those of one operation in one mode.
type figures struct{ old, ex, ours float64 } // ex is NaN where there is none

func (r results) figures(mode, operation string) (figures, error) {
	old, ok := r[key{"libmlx5", mode, operation}]
	ours, ok2 := r[key{"Go", mode, operation}]
	if !ok || !ok2 {
		return figures{}, fmt.Errorf("%s was not measured (%s)", operation, mode)
	}
	ex, ok := r[key{"libmlx5", mode, operation + newer}]
	if !ok {
		ex = math.NaN()
	}
	return figures{old, ex, ours}, nil
}

// ratio is how much more ours is than the lesser of libmlx5's.
func (f figures) ratio() float64 {
	if f.ex < f.old {
		return f.ours / f.ex
	}
	return f.ours / f.old
}

func (f figures) String() string {
	ex := "-"
	if !math.IsNaN(f.ex) {
		ex = fmt.Sprintf("%.1f", f.ex)
	}
	return fmt.Sprintf("%.1f\t%s\t%.1f\t%.2f", f.old, ex, f.ours, f.ratio())
}

// print writes the table.
func (r results) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tinstructions\t\t\t\t|\tnanoseconds\t\t\t\t")
	fmt.Fprintln(w, "\tlibmlx5\tnewer\tGo\tratio\t|\tlibmlx5\tnewer\tGo\tratio\t")
	for _, row := range rows {
		count, err := r.figures("count", row.operation)
		if err != nil {
			return err
		}
		took, err := r.figures("time", row.operation)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-34s\t%v\t|\t%v\t\n", row.text, count, took)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "\nlibmlx5: ibv_post_send, ibv_post_recv, ibv_poll_cq; newer: ibv_wr_*, ibv_start_poll."+
		"\nratio: Go to the lesser of libmlx5's. Instructions are exact; nanoseconds are the least of many rounds.")
	return err
}
