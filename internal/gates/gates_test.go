package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArguments(t *testing.T) {
	g := pingpongGates[0].with("-x 1").set("-n 2")
	g.program = strings.Replace(g.program, "ibv_rc_pingpong", "true", 1)
	args, err := g.arguments(ib)
	require.NoError(t, err)
	port := args[10]
	require.Equal(t, strings.Fields("-n 2 -- true -c -n 200 -x 1 -p "+port+" ::: true -c -n 200 -x 1 -p "+port+" 127.0.0.1"), args)

	g = programGate{program: "sh -c true"}
	args, err = g.arguments(roce)
	require.NoError(t, err)
	require.Equal(t, strings.Fields("-- sh -c true"), args)

	g.program = "no-such-program"
	_, err = g.arguments(roce)
	require.ErrorIs(t, err, exec.ErrNotFound)
	_, err = g.try(t.Context(), nil, roce)
	require.ErrorIs(t, err, exec.ErrNotFound)
}

// Examples need a GID on Ethernet and none on InfiniBand.
func TestGIDArgument(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "ibv_x"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", bin)
	for program, want := range map[string][2]string{"ibv_x": {"-- ibv_x -g 0 -p", "-- ibv_x -p"}, "ibv_x -g 1": {"-- ibv_x -g 1 -p", "-- ibv_x -g 1 -p"}} {
		g := programGate{program: program, client: sameAsServer}
		for i, l := range []layer{roce, ib} {
			args, err := g.arguments(l)
			require.NoError(t, err)
			require.Regexp(t, "^"+want[i]+" ", strings.Join(args, " "))
		}
	}
}

// The tables make no gate twice, and every gate says what must be true.
func TestGates(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range allGates(versions{"python3-pyverbs": "44.0-2"}) {
		require.False(t, seen[g.title()], g.title())
		seen[g.title()] = true
		require.NotEmpty(t, g.layers())
		if p, ok := g.(*programGate); ok {
			require.NotEmpty(t, p.checks, g.title())
		}
	}
}

func TestChecks(t *testing.T) {
	r := &ran{layer: roce, said: " 2       100   1.5\n 2       100   1.4\n 4       100   1.6\nsaid said\n", counters: map[string]softnic.Counters{
		"mlx5_0": {PacketsReceived: 1, CompletionEvents: 1}, "mlx5_1": {BlueFlames: 1}}}
	for _, c := range []check{says(2, "said"), says(0, "unsaid"), saysOn(ib, "unsaid"), sizes(2), packets, events, blueFlames, strict, clean} {
		require.NoError(t, c(r))
	}
	for want, c := range map[string]check{
		"2 times, not 1": says(1, "said"),
		"0 times, not 1": saysOn(roce, "unsaid"),
		"2 sizes, not 3": sizes(3),
		"came with":      noBlueFlame,
		"no commands":    counted("commands", func(c softnic.Counters) uint64 { return c.Commands }),
	} {
		require.ErrorContains(t, c(r), want)
	}
	for want, c := range map[string]softnic.Counters{
		"3 bad doorbells": {BadDoorbells: 3}, "1 completion queue overruns": {Overruns: 1}, "1 malformed": {DropMalformed: 1},
		"nowhere": {DropUnreachable: 1}, "backlog": {DropOverflow: 1}, "left: [0 0 0 2": {MRs: 2}, "left: [0 0 0 0 0 0 0 0 0 4096]": {PinnedBytes: 4096},
	} {
		require.ErrorContains(t, strict(&ran{counters: map[string]softnic.Counters{"mlx5_0": c}}), want)
	}
	require.ErrorContains(t, clean(&ran{counters: map[string]softnic.Counters{"mlx5_0": {ErrorCompletions: 2}}}), "2 completions with an error")
	require.NoError(t, noBlueFlame(&ran{}))
}

func TestTable(t *testing.T) {
	var out strings.Builder
	table := newTable(&out)
	table.add(&programGate{group: "a", name: "b"}, ib, result{passed: "pass", took: 1500 * time.Millisecond})
	require.NoError(t, table.end())
	fault := errors.New("fault")
	table.add(&programGate{group: "a", name: "c"}, roce, result{err: fault})
	require.ErrorIs(t, table.end(), fault)
	require.Regexp(t, `(?m)^a b +ib +1.5s  pass$`, out.String())
	require.Regexp(t, `(?m)^a c +roce +0.0s  FAILED$`, out.String())
	require.Contains(t, out.String(), "1 passed, 1 failed")
	require.ErrorContains(t, newTable(io.Discard).end(), "no such gate")
}

func TestCommandErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-x":            "not defined",
		"-run (":        "missing closing",
		"-run x -doc y": "all gates",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard), want)
	}
	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, run(t.Context(), nil, io.Discard), "apt-get install libibverbs1")
	_, err := buildTool(t.Context(), t.TempDir(), false)
	require.ErrorContains(t, err, "building farwire")
}

func TestVersions(t *testing.T) {
	v := versions{"perftest": "4.5+0.17-1", "libibverbs1": "44.0-2"}
	require.Equal(t, "4.5+0.17", v.upstream("perftest"))
	require.True(t, strings.HasPrefix(v.String(), "libibverbs1 44.0-2, "), v)
}

// builtTool is the tool, where it can run.
func builtTool(t *testing.T) *tool {
	if err := interpose.Check(); err != nil {
		t.Skip(err)
	}
	tool, err := buildTool(t.Context(), t.TempDir(), false)
	require.NoError(t, err)
	return tool
}

func TestRunGate(t *testing.T) {
	tool := builtTool(t)
	g := programGate{program: "echo said", checks: []check{says(1, "said")}}
	passed, err := g.try(t.Context(), tool, ib)
	require.NoError(t, err)
	require.Equal(t, "pass", passed)
	g.checks = []check{packets}
	_, err = g.try(t.Context(), tool, roce)
	require.ErrorContains(t, err, "no packets were counted\nsaid")

	failing := programGate{program: "printenv NO_SUCH"}
	r := tool.try(t.Context(), &failing, roce)
	require.ErrorContains(t, r.err, "farwire run -link roce")
	require.ErrorContains(t, r.err, "exit status 1")
	failing.env = "NO_SUCH=1"
	require.NoError(t, tool.try(t.Context(), &failing, roce).err)

	var out strings.Builder
	require.ErrorContains(t, runGates(t.Context(), tool, regexp.MustCompile("^no such"), versions{}, &out), "no such gate")
}

// A program that goes on for ever is ended, and the reason is told.
func TestRunGateEnded(t *testing.T) {
	tool := builtTool(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
	g := programGate{program: "sleep 600"}
	_, err := g.try(ctx, tool, roce)
	require.ErrorIs(t, err, reason)
}

// The document tells of the gates that there are, and the list of tests that it was
// written with.
func TestDocument(t *testing.T) {
	const file = "../../docs/conformance.md"
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	_, text, _, err := cutMarks(string(b))
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^Against: (.*)\.$`).FindStringSubmatch(text)
	require.NotNil(t, line)
	found := versions{}
	for _, p := range strings.Split(line[1], ", ") {
		name, version, _ := strings.Cut(p, " ")
		found[name] = version
	}
	want, err := markdown(found)
	require.NoError(t, err)
	require.Equal(t, want, text, "run go run ./internal/gates -doc docs/conformance.md")

	copied := filepath.Join(t.TempDir(), "copy.md")
	require.NoError(t, os.WriteFile(copied, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o644))
	require.NoError(t, updateDocument(copied, found))
	b, err = os.ReadFile(copied)
	require.NoError(t, err)
	require.Equal(t, "before\n"+beginMark+want+endMark+"after\n", string(b))
	require.ErrorContains(t, updateDocument(copied, versions{"python3-pyverbs": "1-1"}), "no list of tests for rdma-core 1")
	require.NoError(t, os.WriteFile(copied, []byte(endMark+beginMark), 0o644))
	require.ErrorContains(t, updateDocument(copied, found), "no marks")
	require.ErrorIs(t, updateDocument(copied+"x", found), os.ErrNotExist)
}
