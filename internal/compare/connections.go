package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/farwire/farwire/rdma"
)

// Many connections at once: how fast they are made, what each takes, and whether a
// message costs more than with few.

// Kinds of jobs that are about many connections.
const (
	open  = 'o' // make connections, until there are as many as workers
	turns = 't' // a few workers use the connections in turn, a message each
)

const (
	fewConnections = 10
	openers        = 32 // at once
	manySize       = 64 // bytes of a message
)

// manyEnv is set in processes that make many connections, of small buffers.
const manyEnv = "FARWIRE_COMPARE_MANY"

func connectionConfig() rdma.Config {
	if os.Getenv(manyEnv) == "" {
		return rdma.Config{}
	}
	return rdma.Config{BufferSize: 4 << 10, Receives: 8, Sends: 4}
}

// openAll makes connections of kind raw until there are n, some at once, and returns how
// long each took.
func (c *client) openAll(n int) (took []time.Duration, err error) {
	missing := max(0, n-len(c.conns))
	conns, took, errs := make([]net.Conn, missing), make([]time.Duration, missing), make([]error, missing)
	next := make(chan int)
	var wg sync.WaitGroup
	for range openers {
		wg.Go(func() {
			for i := range next {
				began := time.Now()
				conns[i], errs[i] = c.open(raw)
				took[i] = time.Since(began)
			}
		})
	}
	for i := range missing {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, conn := range conns {
		if conn != nil {
			c.conns = append(c.conns, conn)
		}
	}
	return took, errors.Join(errs...)
}

// inTurn is how a few workers do a job with n connections, so that as many messages are on
// their way as with few connections.
func (c *client) inTurn(n int) (each []func(job) error) {
	for i := range fewConnections {
		var mine []net.Conn
		for at := i; at < n; at += fewConnections {
			mine = append(mine, c.conns[at])
		}
		each = append(each, func(j job) error { return j.takeTurns(mine) })
	}
	return each
}

func (j job) takeTurns(conns []net.Conn) error {
	buf := make([]byte, max(j.size, jobSize, doneSize))
	rounds := max(1, j.count/len(conns))
	j.count = rounds
	for round := range rounds {
		for _, c := range conns {
			if round == 0 {
				j.put(buf)
				if _, err := c.Write(buf[:jobSize]); err != nil {
					return err
				}
			}
			if _, err := c.Write(buf[:j.size]); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, buf[:j.size]); err != nil {
				return err
			}
		}
	}
	for _, c := range conns {
		if _, err := io.ReadFull(c, buf[:doneSize]); err != nil {
			return err
		}
	}
	return nil
}

// crowd is what was found about many connections of a link.
type crowd struct {
	opened        result
	memory, files [2]float64 // of a connection, at the client and at the server
	few, many     result
	fewJob        job
	manyJob       job
}

// connections measures n connections of each link, and prints a table.
func connections(ctx context.Context, o options, n int, out io.Writer) error {
	chosen, err := find(o.links)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\t|\tconnects\tmedian\t99 %%\t|\tKiB each\t\tfiles each\t\t|\t%d B and back, µs\t\t\t|\tCPU, µs\t\t\t\n", manySize)
	fmt.Fprintf(w, "\t|\t/s\tms\tms\t|\tclient\tserver\tclient\tserver\t|\t%d\t%d\ttimes\t|\t%d\t%d\ttimes\t\n", fewConnections, n, fewConnections, n)
	for _, l := range chosen {
		if l.inside {
			continue
		}
		c, err := l.crowd(ctx, o, n)
		if err != nil {
			return err
		}
		few, many := c.fewJob.each(c.few.wall)/1e3, c.manyJob.each(c.many.wall)/1e3
		fewCPU, manyCPU := c.fewJob.each(c.few.cpu)/1e3, c.manyJob.each(c.many.cpu)/1e3
		fmt.Fprintf(w, "%s\t|\t%.0f\t%.1f\t%.1f\t|\t%.1f\t%.1f\t%.2f\t%.2f\t|\t%.1f\t%.1f\t%s\t|\t%.1f\t%.1f\t%s\t\n", l.name,
			float64(n-fewConnections)/c.opened.wall.Seconds(), c.opened.median.Seconds()*1e3, c.opened.slowest.Seconds()*1e3,
			c.memory[0], c.memory[1], c.files[0], c.files[1],
			few, many, ratio(many/few), fewCPU, manyCPU, ratio(manyCPU/fewCPU))
	}
	return w.Flush()
}

func (l *link) crowd(ctx context.Context, o options, n int) (c crowd, err error) {
	p, err := startPair(ctx, o.profile, l, manyEnv+"=1")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	few := job{kind: open, workers: fewConnections, size: 1}
	if _, err = p.do(few); err != nil {
		return c, err
	}
	c.fewJob = job{kind: turns, workers: fewConnections, back: true, size: manySize}
	if c.fewJob, err = p.fit(c.fewJob, o.slice); err != nil {
		return c, err
	}
	if c.few, err = p.do(c.fewJob); err != nil {
		return c, err
	}
	processes := []*child{p.client, p.server}
	var before [2]usage
	for i, child := range processes {
		before[i] = usageOf(child.cmd.Process.Pid)
	}
	if c.opened, err = p.do(job{kind: open, workers: n, size: 1}); err != nil {
		return c, err
	}
	for i, child := range processes {
		after := usageOf(child.cmd.Process.Pid)
		made := float64(n - fewConnections)
		c.memory[i], c.files[i] = (after.memory-before[i].memory)/1024/made, float64(after.files-before[i].files)/made
	}
	c.manyJob = c.fewJob
	c.manyJob.workers, c.manyJob.count = n, 2*n
	if _, err = p.do(c.manyJob); err != nil { // each for the first time
		return c, err
	}
	rounds := max(20, c.fewJob.count/n)
	c.manyJob.count = rounds * n
	c.many, err = p.do(c.manyJob)
	return c, err
}

// usage is what a process has: memory that is there, in bytes, and open files; zero where
// the system does not tell.
type usage struct {
	memory float64
	files  int
}

func usageOf(pid int) (u usage) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib := 0
			fmt.Sscan(value, &kib)
			u.memory = float64(kib) * 1024
		}
	}
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	u.files = len(files)
	return u
}

// percentile is the value that so many of a hundred do not exceed.
func percentile(took []time.Duration, p int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)-1)*p/100]
}
