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

// other marks operations by the second of a library's interfaces, where it has one:
// libibverbs' newer one, and Go's for lists.
const other = "/ex"

// figures are those of one operation in one mode; NaN where there is none.
type figures struct{ old, newer, each, lists float64 }

func (r results) figures(mode, operation string) (figures, error) {
	old, ok := r[key{"libmlx5", mode, operation}]
	each, ok2 := r[key{"Go", mode, operation}]
	if !ok || !ok2 {
		return figures{}, fmt.Errorf("%s was not measured (%s)", operation, mode)
	}
	return figures{old, r.other("libmlx5", mode, operation), each, r.other("Go", mode, operation)}, nil
}

func (r results) other(who, mode, operation string) float64 {
	if v, ok := r[key{who, mode, operation + other}]; ok {
		return v
	}
	return math.NaN()
}

// ratio is how much the lesser of Go's is of the lesser of libmlx5's.
func (f figures) ratio() float64 { return lesser(f.each, f.lists) / lesser(f.old, f.newer) }

func lesser(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func (f figures) String() string {
	cell := func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f", cell(f.old), cell(f.newer), cell(f.each), cell(f.lists), f.ratio())
}

// print writes the table.
func (r results) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tinstructions\t\t\t\t\t|\tnanoseconds\t\t\t\t\t")
	fmt.Fprintln(w, "\tlibmlx5\tnewer\tGo\tlists\tratio\t|\tlibmlx5\tnewer\tGo\tlists\tratio\t")
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
		"\nGo: Post and Ring, Receive, Poll; lists: Submit, ReceiveAll."+
		"\nratio: the lesser of Go's to the lesser of libmlx5's. Instructions are exact; nanoseconds are the least of many rounds.")
	return err
}
