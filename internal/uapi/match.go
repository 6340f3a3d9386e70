package uapi

import "syscall"

// A Kind says what an attribute of a method is.
type Kind uint8

// The kinds of attribute. An input of InlineMax bytes or fewer lies in the attribute; an
// output is always an address; an object is a handle or a descriptor.
const (
	In Kind = iota
	Out
	Object
	NewObject
	Flags // an input of exactly 4 or 8 bytes
)

// A Spec describes one attribute of a method, as the kernel's tables do.
type Spec struct {
	ID        uint16
	Kind      Kind
	Mandatory bool
	Min, Max  uint16 // accepted lengths of In and Out, in bytes
	ZeroTail  bool   // In: longer than Max is accepted if the rest is zero; Out: longer is accepted
}

// A Method describes one method of one object.
type Method struct {
	Name   string
	Object uint16
	ID     uint16
	Attrs  []Spec
}

// Spec is the description of an attribute, or nil if the method has none with the id.
func (m *Method) Spec(id uint16) *Spec {
	for i := range m.Attrs {
		if m.Attrs[i].ID == id {
			return &m.Attrs[i]
		}
	}
	return nil
}

// A Table is the set of methods a device answers to. It is immutable and safe
// for concurrent use.
type Table struct{ methods map[[2]uint16]*Method }

// NewTable makes a table of the methods given. A later method replaces an
// earlier one of the same object and id.
func NewTable(methods ...Method) *Table {
	t := &Table{make(map[[2]uint16]*Method, len(methods))}
	for i := range methods {
		m := methods[i]
		t.methods[[2]uint16{m.Object, m.ID}] = &m
	}
	return t
}

// Find is the method that r calls, or nil if the device does not have it.
func (t *Table) Find(r Request) *Method { return t.methods[[2]uint16{r.Object(), r.Method()}] }

// Match finds the method that r calls and checks every attribute against it, in
// the kernel's order (Linux uverbs_ioctl.c). Handles are not looked up. The
// errors are:
//
//   - EINVAL: the driver id is not driver; a known attribute is given twice, has
//     its reserved word set, has a wrong length, or is mandatory and absent
//   - EPROTONOSUPPORT: the object, the method, or an attribute that the caller
//     calls mandatory is unknown
//   - EOPNOTSUPP: an input is longer than the method knows and its tail is not zero
//
// mem is read only for such tails.
func (t *Table) Match(r Request, driver uint32, mem Memory) (*Method, error) {
	if r.Driver() != driver {
		return nil, refuse(syscall.EINVAL, "driver id %d, device has %d", r.Driver(), driver)
	}
	m := t.Find(r)
	if m == nil {
		return nil, refuse(syscall.EPROTONOSUPPORT, "object %#x method %#x unknown", r.Object(), r.Method())
	}
	for i := range r.NumAttrs() {
		a := r.At(i)
		s := m.Spec(a.ID())
		if s == nil {
			if a.Mandatory() {
				return nil, refuse(syscall.EPROTONOSUPPORT, "%s: attribute %#x unknown", m.Name, a.ID())
			}
			continue
		}
		for j := range i {
			if r.At(j).ID() == a.ID() {
				return nil, refuse(syscall.EINVAL, "%s: attribute %#x given twice", m.Name, a.ID())
			}
		}
		if err := s.check(m, a, mem); err != nil {
			return nil, err
		}
	}
	for i := range m.Attrs {
		if s := &m.Attrs[i]; s.Mandatory && r.Find(s.ID) == nil {
			return nil, refuse(syscall.EINVAL, "%s: attribute %#x missing", m.Name, s.ID)
		}
	}
	return m, nil
}

func (s *Spec) check(m *Method, a Attr, mem Memory) error {
	n := a.Len()
	switch s.Kind {
	case In, Out:
		if s.Kind == In && s.ZeroTail && n > int(s.Max) && !a.zeroTail(mem, int(s.Max)) {
			return refuse(syscall.EOPNOTSUPP, "%s: attribute %#x has bytes beyond %d", m.Name, s.ID, s.Max)
		}
		if n < int(s.Min) || n > int(s.Max) && !s.ZeroTail {
			return refuse(syscall.EINVAL, "%s: attribute %#x is %d bytes long, not %d to %d", m.Name, s.ID, n, s.Min, s.Max)
		}
	case Flags:
		if n != 4 && n != 8 {
			return refuse(syscall.EINVAL, "%s: flags %#x are %d bytes long", m.Name, s.ID, n)
		}
	default:
		if n != 0 {
			return refuse(syscall.EINVAL, "%s: object attribute %#x has length %d", m.Name, s.ID, n)
		}
	}
	if a.Reserved() != 0 {
		return refuse(syscall.EINVAL, "%s: attribute %#x has its reserved word set", m.Name, s.ID)
	}
	return nil
}
