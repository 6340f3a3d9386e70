package conformance

import "fmt"

// names gives what differs from run to run a name by its role: the first protection
// domain that a side made is pd1, whatever its handle. So two sides agree on a field
// if they mean the same object, and a field that names no object of the side shows.
type names struct {
	known map[string]map[uint64]string // by kind
	count map[string]int
	spans []span
}

// span is memory of the side.
type span struct {
	start, end uint64
	name       string
}

func newNames() *names {
	return &names{known: map[string]map[uint64]string{}, count: map[string]int{}}
}

// define gives v, of an object just made, the next name of its kind. An old object of
// the same number is gone.
func (n *names) define(kind string, v uint64) string {
	if n.known[kind] == nil {
		n.known[kind] = map[uint64]string{}
	}
	n.count[kind]++
	name := fmt.Sprintf("%s%d", kind, n.count[kind])
	n.known[kind][v] = name
	return name
}

// of is the name of v. A packet sequence number is nobody's before it is used.
func (n *names) of(kind string, v uint64) string {
	if name, ok := n.known[kind][v]; ok {
		return name
	}
	switch kind {
	case "psn":
		return n.define(kind, v)
	case "address":
		return n.address(v)
	}
	return fmt.Sprintf("%s? %#x", kind, v)
}

// place gives memory a name.
func (n *names) place(name string, start, length uint64) {
	n.spans = append(n.spans, span{start, start + length, name})
}

// address is the name of a place in memory: of the latest span that holds it.
func (n *names) address(v uint64) string {
	for i := len(n.spans) - 1; i >= 0; i-- {
		if s := n.spans[i]; v >= s.start && v < s.end {
			return fmt.Sprintf("%s+%d", s.name, v-s.start)
		}
	}
	return fmt.Sprintf("address? %#x", v)
}
