package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const someExpectations = `
# how they go
[pass]
a.T.one
a.T.two roce

[skip: no wings]
says: cannot fly
says: no sky
a.T.two ib
a.T.three
[machine: a tail]
says: no tail
a.T.four
`

func TestExpectations(t *testing.T) {
	e, sections, err := parseExpectations(someExpectations)
	require.NoError(t, err)
	require.Len(t, sections, 3)
	require.Equal(t, 2, sections[1].tests)
	require.Equal(t, "1 pass, 2 skip, 1 either", e.summary(ib))
	went := map[string]verdict{
		"a.T.one": {"pass", ""}, "a.T.two": {"skip", "cannot fly today"}, "a.T.three": {"skip", "no sky"}, "a.T.four": {"pass", ""},
	}
	require.Empty(t, e.differences(ib, went))
	went["a.T.four"] = verdict{"skip", "no tail"}
	require.Empty(t, e.differences(ib, went))
	for want, change := range map[string]func(){
		"a.T.four is listed as machine a tail; it is a skip no sky": func() { went["a.T.four"] = verdict{"skip", "no sky"} },
		"a.T.three is listed as skip no wings; it is a pass ":       func() { went["a.T.three"] = verdict{"pass", ""} },
		"a.T.one is listed as pass ; it is a skip cannot fly":       func() { went["a.T.one"] = verdict{"skip", "cannot fly"} },
		"a.T.one is listed as pass ; it is a crash signal":          func() { went["a.T.one"] = verdict{"crash", "signal"} },
		"a.T.two is listed and was not there":                       func() { delete(went, "a.T.two") },
		"b.T.new is not listed; it is a pass ":                      func() { went["b.T.new"] = verdict{"pass", ""} },
	} {
		change()
		require.Contains(t, e.differences(ib, went), want)
	}

	for text, want := range map[string]string{
		"a.T.one":        "line 1: no heading",
		"[pass]\na\na":   "line 3: a is listed twice for roce",
		"[pass]\na mars": `"a mars" is not a test and a link layer`,
		"[pass]\na ib x": "is not a test and a link layer",
		"[skip]":         "heading",
		"[skip: x":       "heading",
		"[pass: x]":      "heading",
		"[fail: x]":      "heading",
	} {
		_, _, err := parseExpectations(text)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err = readExpectations("1.0")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The list of the version that Debian has can be read, and says why.
func TestCommittedList(t *testing.T) {
	e, sections, err := readExpectations("44.0")
	require.NoError(t, err)
	require.Len(t, e[roce], len(e[ib]))
	for _, s := range sections {
		require.NotZero(t, s.tests, s.reason)
		require.Equal(t, s.outcome != "pass", len(s.says) > 0, s.reason)
	}
}

func TestRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records")
	for text, want := range map[string]progress{
		`{"tests": ["a", "b"]}`:                           {"", map[string]bool{"a": true, "b": true}},
		`{"tests": ["a", "b"]}` + "\n" + `{"start": "a"}`: {"a", map[string]bool{"b": true}},
		`{"tests": ["a"]}` + "\n" + `{"start": "a"}` + "\n" + `{"id": "a", "outcome": "skip", "reason": "dark"}`: {"", map[string]bool{}},
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		went := map[string]verdict{}
		p, err := readRecords(file, went)
		require.NoError(t, err)
		require.Equal(t, want, p)
		if strings.Contains(text, "dark") {
			require.Equal(t, map[string]verdict{"a": {"skip", "dark"}}, went)
		}
	}
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o644))
	_, err := readRecords(file, nil)
	require.ErrorContains(t, err, "unexpected end")
	_, err = readRecords(file+"x", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A suite of our own: what a crash leaves undone is taken up, and everything else
// counts as what it is.
func TestRunTests(t *testing.T) {
	tool := builtTool(t)
	if _, err := exec.LookPath(python); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	put("run_module.py", string(runModule))
	put("tests/__init__.py", "")
	put("tests/args_parser.py", "import sys\nclass parser:\n  def parse_args():\n    del sys.argv[1:3]\n")
	put("tests/test_a.py", `
import os, unittest
class T(unittest.TestCase):
    def test_1_good(self): pass
    def test_2_crash(self): os.abort()
    def test_3_bad(self): self.fail("bad luck")
    def test_4_skipped(self): self.skipTest("no wings")
    def test_5_error(self): raise ValueError("no value")
    def test_6_part(self):
        with self.subTest(): self.skipTest("no part")
        with self.subTest(): self.fail("bad part")
    @unittest.expectedFailure
    def test_7_surprise(self): pass
    def test_8_crash(self): os.abort()
`)
	went := map[string]verdict{}
	require.NoError(t, runTests(t.Context(), tool, roce, dir, "test_a", went))
	outcomes := map[string]string{}
	for test, v := range went {
		outcomes[test] = v.outcome
	}
	require.Equal(t, map[string]string{"test_a.T.test_1_good": "pass", "test_a.T.test_2_crash": "crash", "test_a.T.test_3_bad": "fail",
		"test_a.T.test_4_skipped": "skip", "test_a.T.test_5_error": "fail", "test_a.T.test_6_part": "fail",
		"test_a.T.test_7_surprise": "fail", "test_a.T.test_8_crash": "crash"}, outcomes)
	require.Equal(t, "no wings", went["test_a.T.test_4_skipped"].reason)
	require.Contains(t, went["test_a.T.test_5_error"].reason, "no value")

	// What is wrong with a module is nobody's verdict.
	put("tests/test_b.py", "import no_such_module\n")
	require.ErrorContains(t, runTests(t.Context(), tool, roce, dir, "test_b", went), "test_b: ")
	put("tests/test_c.py", "import atexit, os\natexit.register(os.abort)\n")
	require.ErrorContains(t, runTests(t.Context(), tool, roce, dir, "test_c", went), "test_c: ")
}

func TestUnpackErrors(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "x.gz")
	require.NoError(t, os.WriteFile(packed, []byte("not packed"), 0o644))
	require.ErrorContains(t, unpack(packed, filepath.Join(dir, "x")), "x.gz")
	require.ErrorIs(t, unpack(filepath.Join(dir, "y"), dir), os.ErrNotExist)
	require.Error(t, unpack(dir, filepath.Join(dir, "z")))
	_, err := unpackSuite(filepath.Join(packed, "x"))
	require.Error(t, err)
}

// A suite of a version without list fails the gate before anything runs.
func TestUnknownVersion(t *testing.T) {
	_, err := (&pyverbsGate{version: "1.0"}).try(t.Context(), nil, roce)
	require.True(t, errors.Is(err, os.ErrNotExist), err)
}
