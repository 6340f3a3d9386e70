package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// variant is what both NICs are.
type variant struct {
	name     string
	settings string // softnic.ParseConfig
	layer    verbs.LinkLayer
}

// rdmaCore is the version that the table of differences was made with. Another one may
// have others, which fail the test only where rdma-core must be there.
const rdmaCore = "44.0"

var variants = []variant{
	{"usual", "", verbs.LinkEthernet},
	{"InfiniBand", "", verbs.LinkInfiniBand},
	{"static pages", "uar=static", verbs.LinkEthernet},
	{"no write combining", "bf=off", verbs.LinkEthernet},
	{"old kernel", "kernel=old", verbs.LinkEthernet},
	{"old completions", "cqe=0", verbs.LinkEthernet},
}

// TestBytes fails for a difference that is not in the table, and for one in the table
// that there is none of any more.
func TestBytes(t *testing.T) {
	program := build(t)
	var all []difference
	var libraries string
	ran := 0
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			var found []difference
			found, libraries = both(t, program, v)
			for _, d := range found {
				d.variant = v.name
				all = append(all, d)
			}
			ran++
		})
	}
	t.Log("compared with", libraries)
	fail := t.Error
	if !strings.Contains(libraries+" ", "."+rdmaCore+" ") {
		t.Log("the table was made with rdma-core", rdmaCore)
		if os.Getenv(needVar) == "" {
			fail = t.Log
		}
	}
	occurs, told := map[*allowed]bool{}, map[difference]bool{}
	for _, d := range all {
		kind := difference{what: d.what, field: d.field}
		if a := find(d); a != nil {
			occurs[a] = true
		} else if !told[kind] {
			fail("not in the table, the first of its kind:", d)
			told[kind] = true
		}
	}
	for i, a := range differences {
		if ran == len(variants) && !occurs[&differences[i]] {
			fail("in the table, but no longer so:", a)
		}
	}
}

// find is the row of the table that allows a difference, or nil.
func find(d difference) *allowed {
	for i := range differences {
		if differences[i].is(d) {
			return &differences[i]
		}
	}
	return nil
}

// both runs both sides through the script, and tells the libraries that one of them is.
func both(t *testing.T, program string, v variant) (all []difference, libraries string) {
	us, nic := newSide(t, v)
	driver := newOurs(nic)
	us.driver = driver
	them, nic := newSide(t, v)
	library := newTheirs(t, program, nic)
	them.driver = library

	run := func(st step) (ok bool) {
		ourAnswers, ours := us.perform(t, st)
		theirAnswers, theirs := them.perform(t, st)
		for _, d := range compare(ours, theirs) {
			d.step = st.name
			all = append(all, d)
		}
		return assert.Equal(t, theirAnswers, ourAnswers, st.name)
	}
	ok := run(do("open", call("open")))
	libraries = library.do(t, "libraries")
	for _, st := range script(driver.nic) {
		if ok = ok && run(st); !ok {
			return all, libraries // what comes after different answers is different anyway
		}
	}
	require.Eventually(t, func() bool { return us.hasClosed() && them.hasClosed() }, bound, time.Millisecond)
	return all, libraries
}

var update = flag.Bool("update", false, "write the table of differences into docs/conformance.md")

// TestTable keeps the table of docs/conformance.md that of this package.
func TestTable(t *testing.T) {
	const page, begin, end = "../../docs/conformance.md", "<!-- differences -->\n", "<!-- end of differences -->"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	require.Contains(t, before, "rdma-core "+rdmaCore)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+"\n"+markdown()+"\n"+end+after), 0o644))
		return
	}
	require.Equal(t, markdown(), strings.TrimPrefix(strings.TrimSuffix(table, "\n"), "\n"), "run go test ./internal/conformance -run TestTable -update")
}
