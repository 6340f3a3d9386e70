package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// difference is a field on which the sides differ, or an act that only one has.
type difference struct{ variant, step, what, field, ours, theirs string }

func (d difference) String() string {
	return fmt.Sprintf("%s / %s / %s: %s: ours %s, libmlx5's %s", d.variant, d.step, d.what, d.field, d.ours, d.theirs)
}

// Fields and values of a difference in whether, and when, there is an act.
const (
	order = "order"
	none  = "none"
	there = "there"

	elsewhere = "elsewhere"
)

// streams are compared one by one: in which order a NIC executes, fetches and completes
// is its own affair, but for what one queue says.
func stream(a *act) string {
	switch {
	case strings.HasPrefix(a.what, "entry"), strings.HasPrefix(a.what, "receive"),
		strings.HasPrefix(a.what, "completion in"), strings.HasPrefix(a.what, "record"):
		return a.what
	case a.what == "ring", a.what == "arm":
		return "doorbells"
	case a.what == "event":
		return "events"
	}
	return "commands"
}

// compare finds the differences of a step.
func compare(ours, theirs []*act) (all []difference) {
	streams := map[string][2][]*act{}
	for i, acts := range [][]*act{ours, theirs} {
		for _, a := range acts {
			s := streams[stream(a)]
			s[i] = append(s[i], a)
			streams[stream(a)] = s
		}
	}
	for _, name := range sortedKeys(streams) {
		all = append(all, compareStream(streams[name][0], streams[name][1])...)
	}
	return all
}

// compareStream pairs acts of one name: those that agree, then the first with the
// first. Of those that have no fellow nothing is compared but that.
func compareStream(ours, theirs []*act) (all []difference) {
	fellow := map[*act]*act{}
	pair := func(o *act, fits func(o, t *act) bool) {
		for _, t := range theirs {
			if fellow[o] == nil && fellow[t] == nil && t.what == o.what && fits(o, t) {
				fellow[o], fellow[t] = t, o
			}
		}
	}
	for _, o := range ours {
		pair(o, func(o, t *act) bool { return len(compareActs(o, t)) == 0 })
	}
	for _, o := range ours {
		pair(o, func(o, t *act) bool { return true })
	}
	var paired [][2]*act
	for _, o := range ours {
		if fellow[o] == nil {
			all = append(all, difference{what: o.what, field: order, ours: there, theirs: none})
			continue
		}
		paired = append(paired, [2]*act{o, fellow[o]})
	}
	strays := moved(theirs, paired)
	for i, p := range paired {
		if strays[i] {
			all = append(all, difference{what: p[0].what, field: order, ours: elsewhere, theirs: elsewhere})
		}
		all = append(all, compareActs(p[0], p[1])...)
	}
	for _, t := range theirs {
		if fellow[t] == nil {
			all = append(all, difference{what: t.what, field: order, ours: none, theirs: there})
		}
	}
	return all
}

func compareActs(ours, theirs *act) (all []difference) {
	names := map[string]bool{}
	for _, a := range []*act{ours, theirs} {
		for _, f := range a.fields {
			names[f.name] = true
		}
	}
	for _, name := range sortedKeys(names) {
		if name == coreRoom && ours.get("form") != theirs.get("form") {
			continue
		}
		if o, t := ours.get(name), theirs.get(name); o != t {
			all = append(all, difference{what: ours.what, field: name, ours: o, theirs: t})
		}
	}
	return all
}

// moved finds the fewest acts, by their place among ours, without which both sides have
// the same order.
func moved(theirs []*act, paired [][2]*act) map[int]bool {
	longest, before := make([]int, len(paired)), make([]int, len(paired))
	place := func(i int) int { return slices.Index(theirs, paired[i][1]) }
	end := -1
	for i := range paired {
		longest[i], before[i] = 1, -1
		for j := range i {
			if place(j) < place(i) && longest[j] >= longest[i] {
				longest[i], before[i] = longest[j]+1, j
			}
		}
		if end < 0 || longest[i] > longest[end] {
			end = i
		}
	}
	all := map[int]bool{}
	for i := range paired {
		all[i] = true
	}
	for ; end >= 0; end = before[end] {
		delete(all, end)
	}
	return all
}
