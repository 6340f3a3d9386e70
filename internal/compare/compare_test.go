package main

import (
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	packets "github.com/farwire/farwire/internal/link"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "client") {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// short is a comparison that is over soon.
var short = []string{"-rounds", "1", "-slice", "3ms"}

// The command prints a row for each link.
func TestCompare(t *testing.T) {
	names := linkNames()
	if l, err := packets.LoopbackUDP((*packets.Packet).Release); errors.Is(err, packets.ErrAddrInUse) {
		names = []string{"memory", "tcp", "unix"}
	} else {
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	var out strings.Builder
	args := append(short, "-links", strings.Join(names, ","))
	require.NoError(t, run(t.Context(), args, nil, &out))
	t.Logf("\n%s", &out)
	for _, name := range names {
		require.Regexp(t, `(?m)^ *`+name+` +(\| +\d+\.\d +\d+\.\d\d +(\d+\.\d\d|-) +(\d+\.\d\d|-) *){3}$`, out.String())
	}
	require.Regexp(t, regexp.MustCompile(`(?m)^ *tcp .* 1\.00 .* 1\.00 .* 1\.00 `), out.String())
}

// With -all there are connections, requests and streams of every number; here of a few.
func TestCompareAll(t *testing.T) {
	all := everything
	defer func() { everything = all }()
	everything = slices.Clone(all)
	for i, g := range everything {
		everything[i].measures = slices.Clone(g.measures)
		for j, m := range g.measures {
			require.LessOrEqual(t, m.workers, maxWorkers)
			everything[i].measures[j].workers = min(m.workers, 3)
		}
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-all", "-rounds", "1", "-slice", "1us", "-links", "memory"}, nil, &out))
	t.Logf("\n%s", &out)
	require.Equal(t, len(everything), strings.Count(out.String(), "memory"))
	for _, g := range everything {
		require.Contains(t, out.String(), g.title)
	}
}

// With -connections there is a row for each link with two processes.
func TestConnections(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), append(short, "-connections", "40", "-links", "memory,unix"), nil, &out))
	t.Logf("\n%s", &out)
	require.Regexp(t, `(?m)^ *tcp +\| .*\n +unix +\| `, out.String())
	require.NotContains(t, out.String(), "memory")
}

func TestPercentile(t *testing.T) {
	took := []time.Duration{3, 1, 2, 5, 4}
	require.Equal(t, time.Duration(3), percentile(took, 50))
	require.Equal(t, time.Duration(4), percentile(took, 99))
	require.Zero(t, percentile(nil, 50))
}

// The link that others are compared with is always there.
func TestCompareAddsTheBase(t *testing.T) {
	found, err := find([]string{"unix"})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, base, found[0].name)
}

func TestArguments(t *testing.T) {
	var out strings.Builder
	for want, args := range map[string][]string{
		`unknown link "x"`:  {"-links", "x"},
		`unknown link "y"`:  {"server", "y"},
		"0 rounds of 300ms": {"-rounds", "0"},
		"not defined: -z":   {"-z"},
		"5 connections":     {"-connections", "5"},
	} {
		require.ErrorContains(t, run(t.Context(), args, nil, &out), want)
	}
}

// A server whose client never comes ends when its input does.
func TestServerEnds(t *testing.T) {
	in, end := io.Pipe()
	read, address := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- links[linkNamed("unix")].server(in, address) }()
	b := make([]byte, 200)
	n, err := read.Read(b)
	require.NoError(t, err)
	path := strings.TrimSpace(string(b[:n]))
	_, err = os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, end.Close())
	require.NoError(t, <-done)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A job brings every message to the server, and back if it says so.
func TestJob(t *testing.T) {
	for _, j := range []job{{size: 1000, count: 7}, {back: true, flight: 1, size: 64, count: 3}} {
		near, far := net.Pipe()
		counted := &counting{Conn: far}
		served := make(chan error, 1)
		go func() { served <- serve(counted) }()
		buf := make([]byte, maxMessage)
		_, err := j.do(near, buf)
		require.NoError(t, err)
		require.NoError(t, near.Close())
		require.NoError(t, <-served)
		require.Equal(t, jobSize+j.size*j.count, counted.read)
		back := doneSize
		if j.back {
			back += j.size * j.count
		}
		require.Equal(t, back, counted.wrote)
	}
}

type counting struct {
	net.Conn
	read, wrote int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read += n
	return n, err
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wrote += n
	return n, err
}

// No more messages than a job allows are without their answer, and so many are.
func TestFlight(t *testing.T) {
	near, far := net.Pipe()
	j := job{back: true, flight: 3, size: 8, count: 5}
	done := make(chan error, 1)
	go func() {
		_, err := j.do(near, make([]byte, 8))
		done <- err
	}()
	b := make([]byte, jobSize)
	_, err := io.ReadFull(far, b)
	require.NoError(t, err)
	for range 3 {
		_, err := io.ReadFull(far, b[:8])
		require.NoError(t, err)
	}
	for left := 5; left > 0; left-- {
		_, err = far.Write(b[:8])
		require.NoError(t, err)
		if left > 3 {
			_, err = io.ReadFull(far, b[:8])
			require.NoError(t, err)
		}
	}
	_, err = far.Write(b[:doneSize])
	require.NoError(t, err)
	require.NoError(t, <-done)
	near.Close()
	far.Close()
}

func TestServeRefuses(t *testing.T) {
	for _, size := range []int{0, maxMessage + 1} {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- serve(far) }()
		b := make([]byte, jobSize)
		job{size: size, count: 1}.put(b)
		_, err := near.Write(b)
		require.NoError(t, err)
		require.Error(t, <-served)
		require.NoError(t, near.Close())
	}
}

func TestMedian(t *testing.T) {
	v := []float64{5, 1, 3, 2}
	at := func(i int) float64 { return v[i] }
	require.Equal(t, 2.5, median(4, at))
	require.Equal(t, 3.0, median(3, at))
	require.Equal(t, 5.0, median(1, at))
	require.Equal(t, "-", ratio(0/zero))
	require.Equal(t, "-", ratio(1/zero))
}

var zero float64

func TestProfile(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	require.NoError(t, run(t.Context(), append(short, "-links", base, "-profile", dir), nil, &out))
	for _, role := range []string{"client", "server"} {
		s, err := os.Stat(dir + "/" + base + "." + role + ".pprof")
		require.NoError(t, err)
		require.Positive(t, s.Size())
	}
}
