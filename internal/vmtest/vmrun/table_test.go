package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/vmtest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	results := []vmtest.Result{
		{Name: "./good", Output: []byte("--- PASS: TestA\n    --- SKIP: TestA/b\n--- SKIP: TestC\n"), Elapsed: 1234 * time.Millisecond},
		{Name: "./bad", Status: 2, Output: []byte("why\n")},
		{Name: "./worse", Status: -1, Err: errors.New("did not run")},
	}
	var b bytes.Buffer
	require.Equal(t, 2, (&options{}).print(&b, results))
	require.Equal(t, `  ./good   ok                     1.23s  1 passed, 2 skipped, 0 failed
  ./bad    FAILED: exit status 2  0s     
  ./worse  FAILED: did not run    0s     
---- ./bad
why
----
---- ./worse
----
`, b.String())
	b.Reset()
	(&options{verbose: true}).print(&b, results[:1])
	require.Contains(t, b.String(), "---- ./good\n--- PASS")
}

// Tests that were not run, or not to their end, are no success; a script has none.
func TestNoTestRan(t *testing.T) {
	t.Parallel()
	results := []vmtest.Result{
		{Name: "./rdma", Output: []byte("testing: warning: no tests to run\nPASS\n")},
		{Name: "./skipped", Output: []byte("--- SKIP: TestA\nPASS\n")},
		{Name: "./good", Output: []byte("--- PASS: TestA\n--- SKIP: TestB\nPASS\n")},
		{Name: "./bad", Status: 2, Output: []byte("panic\n")},
		{Name: "script.sh"},
	}
	judge(results)
	require.ErrorIs(t, results[0].Err, errNoTest)
	require.ErrorIs(t, results[1].Err, errNoTest)
	for _, r := range results[2:] {
		require.NoError(t, r.Err, r.Name)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	o, jobs, err := parse([]string{"-kernels", "6.1", "-cpus", "1", "./rdma/verbs", "x.sh"})
	require.NoError(t, err)
	require.Equal(t, "6.1", o.kernels)
	require.Equal(t, 1, o.config.CPUs)
	require.Equal(t, []string{"./rdma/verbs", "x.sh"}, jobs)
	require.ErrorContains(t, run(t.Context(), []string{"-kernels", "2.4"}), "2.4")
	require.ErrorContains(t, run(t.Context(), []string{"-nic", "fc"}), "fc")
	require.ErrorContains(t, run(t.Context(), []string{"-need", "-qemu", "no-such-emulator"}), "no-such-emulator")
	require.NoError(t, run(t.Context(), []string{"-need=false", "-qemu", "no-such-emulator"}), "skipped")
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	var m matrix
	m.add("6.1", []vmtest.Result{{Output: []byte("--- PASS: TestKernelA (0.1s)\n    --- PASS: TestKernelA/to_it (0s)\n        --- PASS: TestKernelA/to_it/x\n--- SKIP: TestKernelB\n")}})
	m.add("7", []vmtest.Result{{Output: []byte("--- FAIL: TestKernelA\n    --- FAIL: TestKernelA/to_it\n    --- PASS: TestKernelA/from_it\n")}})
	var b bytes.Buffer
	m.print(&b)
	require.Equal(t, `| test       | 6.1  | 7    |
|---         |---   |---   |
| A/to_it    | yes  | NO   |
| B          | -    | ?    |
| A/from_it  | ?    | yes  |
`, b.String())
}
