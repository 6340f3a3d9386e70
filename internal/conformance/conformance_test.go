package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

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
// have others.
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
	ran := 0
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			ran++
			for _, d := range both(t, program, v) {
				d.variant = v.name
				all = append(all, d)
			}
		})
	}
	occurs, told := map[*allowed]bool{}, map[difference]bool{}
	for _, d := range all {
		kind := difference{what: d.what, field: d.field}
		if a := find(d); a != nil {
			occurs[a] = true
		} else if !told[kind] {
			t.Error("not in the table, the first of its kind:", d)
			told[kind] = true
		}
	}
	if ran < len(variants) || t.Failed() {
		return
	}
	for i, a := range differences {
		if !occurs[&differences[i]] {
			t.Error("in the table, but no longer so:", a)
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

// both runs both sides through the script.
func both(t *testing.T, program string, v variant) (all []difference) {
	us, nic := newSide(t, v)
	driver := newOurs(nic)
	us.driver = driver
	them, nic := newSide(t, v)
	library := newTheirs(t, program, nic)
	them.driver = library
	defer func() {
		t.Logf("compared with %s; the table was made with rdma-core %s", library.do(t, "libraries"), rdmaCore)
	}()

	run := func(st step) {
		ourAnswers, ours := us.perform(t, st)
		theirAnswers, theirs := them.perform(t, st)
		require.Equal(t, theirAnswers, ourAnswers, st.name)
		for _, d := range compare(ours, theirs) {
			d.step = st.name
			all = append(all, d)
		}
	}
	run(do("open", call("open")))
	for _, st := range script(driver.nic) {
		run(st)
	}
	require.Eventually(t, func() bool { return us.hasClosed() && them.hasClosed() }, bound, time.Millisecond)
	return all
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
