package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/interpose"
)

// needVar is set where rdma-core is there, in the version that docs/cost.md has
// the figures of.
const needVar = "FARWIRE_NEED_RDMA_CORE"

// need skips the test where it cannot run.
func need(t *testing.T) {
	err := interpose.Check()
	if err == nil {
		_, err = exec.LookPath("cc")
	}
	if err == nil {
		_, err = os.Stat("/usr/include/infiniband/verbs.h")
	}
	if err != nil && os.Getenv(needVar) == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// most is how much the ratio of instructions of each row may be, a little above what
// it is with Debian's libmlx5 44: a change that costs more is to be looked at.
var most = map[string]float64{
	"post": 0.97, "post-32": 0.96, "post-inline": 1, "receive": 0.99, "receive-32": 0.87,
	"poll-send": 0.95, "poll-send-16": 0.97, "poll-receive": 0.82, "poll-receive-16": 0.76,
}

// The command prints a row for each operation.
func TestCost(t *testing.T) {
	need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	// The test's own program may be one with the race detector.
	program := filepath.Join(t.TempDir(), "cost")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(ctx, program).CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("\n%s", out)
	table := strings.Split(string(out), "\n")[2:]
	for i, row := range rows {
		require.Contains(t, table[i], row.text)
		instructions, nanoseconds, _ := strings.Cut(strings.ReplaceAll(table[i], row.text, ""), "|")
		require.Len(t, strings.Fields(nanoseconds), 5)
		figures := strings.Fields(instructions)
		require.Len(t, figures, 5)
		ratio, err := strconv.ParseFloat(figures[4], 64)
		require.NoError(t, err)
		if os.Getenv(needVar) != "" {
			require.LessOrEqual(t, ratio, most[row.operation], row.text)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	require.NoError(t, report("empty 1 3\npost 1 3\npost-4 4 1\n", []int{9, 10, 10, 110, 999, 109, 52}, &out))
	require.Equal(t, "empty 0.00\npost 100.00\npost-4 10.50\n", out.String())
	for said, want := range map[string]string{
		"empty 1 3\n":             "2 counts are of no operation",
		"empty 1 6\n":             "5 counts are left",
		"empty 1\n":               "counts are left",
		"empty 0 5\n":             "counts are left",
		"empty 1 4\nempty 1 -1\n": "1 counts are left",
	} {
		require.ErrorContains(t, report(said, []int{1, 2, 3, 4, 5}, &out), want, said)
	}
}

func TestTable(t *testing.T) {
	r := results{}
	for _, mode := range []string{"count", "time"} {
		var said strings.Builder
		for _, row := range rows {
			said.WriteString(row.operation + " 100\n")
		}
		require.NoError(t, r.take("Go", mode, said.String()))
		require.NoError(t, r.take("libmlx5", mode, said.String()+"post/ex 80\nreceive 125\n"))
	}
	f, err := r.figures("count", "post")
	require.NoError(t, err)
	require.Equal(t, 1.25, f.ratio(), "to the lesser of the two")
	f, err = r.figures("time", "receive")
	require.NoError(t, err)
	require.True(t, math.IsNaN(f.newer) && math.IsNaN(f.lists))
	require.Equal(t, 0.8, f.ratio())
	var out strings.Builder
	require.NoError(t, r.print(&out))
	require.Contains(t, out.String(), "1.25")

	require.Error(t, r.take("Go", "count", "post\n"))
	delete(r, key{"libmlx5", "time", "receive"})
	require.ErrorContains(t, r.print(&out), "receive was not measured (time)")
	delete(r, key{"Go", "count", "post"})
	require.ErrorContains(t, r.print(&out), "post was not measured (count)")
}

func TestArguments(t *testing.T) {
	var out strings.Builder
	for _, args := range [][]string{{"go", "neither"}, {"-no"}, {"-cc", "/no/such/compiler"}} {
		require.Error(t, run(t.Context(), args, &out), args)
	}
}
