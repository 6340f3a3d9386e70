package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// measures are the columns of the table: a job each, whose count is found by trying.
var measures = []struct {
	job
	title, unit string
	value       func(j job, r result) float64 // of one round
}{
	{job{back: true, size: 64}, "64 B and back", "µs", perMessage},
	{job{size: 64 << 10}, "64 KiB one way", "MB/s", speed},
	{job{size: maxMessage}, "1 MiB one way", "MB/s", speed},
}

const maxMessage = 1 << 20

func perMessage(j job, r result) float64 { return r.wall.Seconds() * 1e6 / float64(j.count) }
func speed(j job, r result) float64 {
	return float64(j.size) * float64(j.count) / 1e6 / r.wall.Seconds()
}

// each is a duration per message.
func (j job) each(d time.Duration) float64 { return float64(d) / float64(j.count) }

// sample is what a measure took in each round.
type sample struct {
	job
	rounds []result
}

// compare measures, and prints the table.
func compare(ctx context.Context, o options, out io.Writer) (err error) {
	chosen, err := find(o.links)
	if err != nil {
		return err
	}
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			err = errors.Join(err, p.end())
		}
	}()
	for _, l := range chosen {
		p, err := startPair(ctx, o.profile, l)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	samples := make([][]sample, len(pairs)) // by pair and measure
	for i, p := range pairs {
		for _, m := range measures {
			j, err := p.fit(m.job, o.slice)
			if err != nil {
				return err
			}
			samples[i] = append(samples[i], sample{job: j})
		}
	}
	for range o.rounds {
		for m := range measures {
			for i, p := range pairs {
				s := &samples[i][m]
				r, err := p.do(s.job)
				if err != nil {
					return err
				}
				s.rounds = append(s.rounds, r)
			}
		}
	}
	return printTable(pairs, samples, out)
}

// fit finds the count with which a job takes about so long.
func (p *pair) fit(j job, slice time.Duration) (job, error) {
	for j.count = 1; ; {
		r, err := p.do(j)
		if err != nil || r.wall > slice*3/4 {
			return j, err
		}
		grow := min(8, float64(slice)/float64(r.wall+1))
		j.count = int(float64(j.count)*grow) + 1
	}
}

func printTable(pairs []*pair, samples [][]sample, out io.Writer) error {
	from := samples[slices.IndexFunc(pairs, func(p *pair) bool { return p.name == base })]
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, m := range measures {
		fmt.Fprintf(w, "\t|\t%s\t\tCPU", m.title)
	}
	fmt.Fprint(w, "\t\n")
	for _, m := range measures {
		fmt.Fprintf(w, "\t|\t%s\ttimes\ttimes", m.unit)
	}
	fmt.Fprint(w, "\t\n")
	for i, p := range pairs {
		fmt.Fprint(w, p.name)
		for m := range measures {
			s, t := &samples[i][m], &from[m]
			value := median(len(s.rounds), func(k int) float64 { return measures[m].value(s.job, s.rounds[k]) })
			faster := median(len(s.rounds), func(k int) float64 { return t.each(t.rounds[k].wall) / s.each(s.rounds[k].wall) })
			cpu := median(len(s.rounds), func(k int) float64 { return s.each(s.rounds[k].cpu) / t.each(t.rounds[k].cpu) })
			fmt.Fprintf(w, "\t|\t%.1f\t%s\t%s", value, ratio(faster), ratio(cpu))
		}
		fmt.Fprint(w, "\t\n")
	}
	fmt.Fprint(w, "\n")
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "times: how many times as fast as %s; CPU: how many times its processor time, of both ends, for the same work.\n", base)
	return err
}

func median(n int, value func(i int) float64) float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = value(i)
	}
	slices.Sort(v)
	return (v[n/2] + v[(n-1)/2]) / 2
}

// ratio is "-" where processor time is not known.
func ratio(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
