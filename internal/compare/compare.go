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

// measure is a column of a table: a job, whose count is found by trying.
type measure struct {
	job
	title, unit string
	value       func(j job, r result) float64 // of one round
}

// group is a table.
type group struct {
	title    string
	measures []measure
}

// basic is what is measured if nothing else is asked for.
var basic = []group{{"", []measure{
	back(1, 1, 64), oneWay(64 << 10), oneWay(maxMessage),
}}}

// everything is what there is to measure.
var everything = []group{
	{"One connection, one message at a time", []measure{back(1, 1, 64), back(1, 1, 1<<10), back(1, 1, 64<<10), back(1, 1, maxMessage)}},
	{"One connection, kept full", []measure{back(1, 64, 64), oneWay(64), oneWay(64 << 10), oneWay(maxMessage)}},
	{"16 connections", []measure{back(16, 1, 64), back(16, 1, 1<<10), back(16, 1, 64<<10)}},
	{"256 connections", []measure{back(maxWorkers, 1, 64), back(maxWorkers, 1, 1<<10), back(maxWorkers, 1, 64<<10)}},
	{"HTTP: 1, 16 and 256 connections", []measure{get(1, 64), get(16, 64), get(maxWorkers, 64), get(16, 64<<10)}},
	{"yamux: 1, 16 and 256 streams", []measure{stream(1, 64), stream(16, 64), stream(maxWorkers, 64), stream(16, 64<<10)}},
}

const maxMessage = 1 << 20

func back(workers, flight, size int) measure {
	title := bytes(size) + " and back"
	if flight > 1 {
		title = fmt.Sprintf("%s, %d at once", title, flight)
	}
	return measure{job{kind: raw, workers: workers, flight: flight, back: true, size: size}, title, "µs", perMessage}
}

func oneWay(size int) measure {
	return measure{job{kind: raw, workers: 1, size: size}, bytes(size) + " one way", "MB/s", speed}
}

func get(workers, size int) measure {
	return measure{job{kind: web, workers: workers, size: size}, fmt.Sprintf("%s, %d", bytes(size), workers), "µs", perMessage}
}

func stream(workers, size int) measure {
	return measure{job{kind: streams, workers: workers, flight: 1, back: true, size: size}, fmt.Sprintf("%s, %d", bytes(size), workers), "µs", perMessage}
}

func bytes(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

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

// compare measures, and prints the tables.
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
	for _, g := range o.groups {
		samples, err := g.sample(pairs, o)
		if err != nil {
			return err
		}
		if err := g.print(pairs, samples, out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "times: how many times as fast as %s; CPU: the processor time of both ends for one message, and how many times that of %s.\n", base, base)
	return err
}

// sample measures a group.
func (g *group) sample(pairs []*pair, o options) ([][]sample, error) {
	samples := make([][]sample, len(pairs)) // by pair and measure
	for i, p := range pairs {
		for _, m := range g.measures {
			j, err := p.fit(m.job, o.slice)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], sample{job: j})
		}
	}
	for range o.rounds {
		for m := range g.measures {
			for i, p := range pairs {
				s := &samples[i][m]
				r, err := p.do(s.job)
				if err != nil {
					return nil, err
				}
				s.rounds = append(s.rounds, r)
			}
		}
	}
	return samples, nil
}

// fit finds the count with which a job takes about so long.
func (p *pair) fit(j job, slice time.Duration) (job, error) {
	for j.count = j.workers; ; {
		r, err := p.do(j)
		if err != nil || r.wall > slice*3/4 {
			return j, err
		}
		grow := min(8, float64(slice)/float64(r.wall+1))
		j.count = int(float64(j.count)*grow) + 1
	}
}

func (g *group) print(pairs []*pair, samples [][]sample, out io.Writer) error {
	if g.title != "" {
		fmt.Fprintf(out, "%s\n\n", g.title)
	}
	from := samples[slices.IndexFunc(pairs, func(p *pair) bool { return p.name == base })]
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, m := range g.measures {
		fmt.Fprintf(w, "\t|\t%s\t\tCPU\t", m.title)
	}
	fmt.Fprint(w, "\t\n")
	for _, m := range g.measures {
		fmt.Fprintf(w, "\t|\t%s\ttimes\tµs\ttimes", m.unit)
	}
	fmt.Fprint(w, "\t\n")
	for i, p := range pairs {
		fmt.Fprint(w, p.name)
		for m := range g.measures {
			s, t := &samples[i][m], &from[m]
			value := median(len(s.rounds), func(k int) float64 { return g.measures[m].value(s.job, s.rounds[k]) })
			faster := median(len(s.rounds), func(k int) float64 { return t.each(t.rounds[k].wall) / s.each(s.rounds[k].wall) })
			took := median(len(s.rounds), func(k int) float64 { return s.each(s.rounds[k].cpu) / 1e3 })
			cpu := median(len(s.rounds), func(k int) float64 { return s.each(s.rounds[k].cpu) / t.each(t.rounds[k].cpu) })
			fmt.Fprintf(w, "\t|\t%.1f\t%s\t%s\t%s", value, ratio(faster), ratio(took), ratio(cpu))
		}
		fmt.Fprint(w, "\t\n")
	}
	fmt.Fprint(w, "\n")
	return w.Flush()
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
