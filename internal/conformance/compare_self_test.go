package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompare(t *testing.T) {
	say := func(what string, fields ...field) *act { return &act{what, fields} }
	list := func(acts ...*act) []*act { return acts }
	for name, c := range map[string]struct {
		ours, theirs []*act
		want         []difference
	}{
		"equal":      {list(say("x", field{"f", "1"}), say("y")), list(say("x", field{"f", "1"}), say("y")), nil},
		"a field":    {list(say("x", field{"f", "1"})), list(say("x", field{"f", "2"})), []difference{{"", "", "x", "f", "1", "2"}}},
		"no field":   {list(say("x", field{"f", "1"})), list(say("x")), []difference{{"", "", "x", "f", "1", "0"}}},
		"zero field": {list(say("x", field{"f", "0"})), list(say("x")), nil},
		"only ours":  {list(say("x"), say("y")), list(say("y")), []difference{{"", "", "x", order, there, none}}},
		"only theirs": {list(say("y")), list(say("y"), say("y")),
			[]difference{{"", "", "y", order, none, there}}},
		"one moved": {list(say("x"), say("y"), say("z")), list(say("y"), say("z"), say("x")),
			[]difference{{"", "", "x", order, elsewhere, elsewhere}}},
		"two of a name": {list(say("x", field{"f", "1"}), say("x", field{"f", "2"})),
			list(say("x", field{"f", "2"}), say("x", field{"f", "1"})), []difference{{"", "", "x", order, elsewhere, elsewhere}}},
		"streams have no order": {list(say("ring"), say("event")), list(say("event"), say("ring")), nil},
		"room of another form": {list(say("x", field{"form", "1"}, field{coreRoom, "8"})), list(say("x", field{"form", "2"})),
			[]difference{{"", "", "x", "form", "1", "2"}}},
	} {
		require.Equal(t, c.want, compare(c.ours, c.theirs), name)
	}
}

func TestNames(t *testing.T) {
	n := newNames()
	require.Equal(t, "pd1", n.define("pd", 7))
	require.Equal(t, "pd1", n.of("pd", 7))
	require.Equal(t, "pd2", n.define("pd", 7), "the number of a new object")
	require.Equal(t, "pd? 0x8", n.of("pd", 8))
	require.Equal(t, "psn1", n.of("psn", 5))
	n.place("mr1", 0x1000, 0x100)
	require.Equal(t, "mr1+16", n.of("address", 0x1010))
	require.Equal(t, "address? 0x1100", n.of("address", 0x1100))
}

func TestStale(t *testing.T) {
	r := &sendRing{0x1000, make([]byte, 128)}
	r.put(0x1040, append(make([]byte, 64), 9)) // around the end
	require.Equal(t, asItLay, r.stale(0x1000, []byte{9, 0}))
	require.Equal(t, asItLay, r.stale(0x107f, []byte{0, 9}))
	require.Equal(t, "0008", r.stale(0x107f, []byte{0, 8}))
}
