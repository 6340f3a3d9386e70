package conformance

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"

	"github.com/farwire/farwire/internal/uapi"
)

// act is one thing that a side said to its NIC, field by field.
type act struct {
	what   string
	fields []field
}

type field struct{ name, value string }

// absent is the value of a field that an act does not have, and of one of no bits: a
// form of a command that has no such field says the same as one where it is 0.
const absent = "0"

func (a *act) get(name string) string {
	for _, f := range a.fields {
		if f.name == name {
			return f.value
		}
	}
	return absent
}

func (a *act) add(name, format string, args ...any) {
	a.fields = append(a.fields, field{name, fmt.Sprintf(format, args...)})
}

// kinds are what fields of that name hold.
var kinds = map[string]string{
	"PDHandle": "pd", "SendCQHandle": "cq", "RecvCQHandle": "cq", "CQHandle": "cq", "QPHandle": "qp", "SRQHandle": "srq", "MRHandle": "mr",
	"UARHandle": "uar", "CompChannel": "fd", "AsyncFD": "fd", "UARPage": "page", "Register": "page", "UserIndex": "user index",
	"UserHandle": "user", "DestQPNum": "qpn", "RqPsn": "psn", "SqPsn": "psn",
	"BufAddr": "address", "RecordAddr": "address", "Start": "address", "HcaVa": "address",
}

// optional are the kinds whose 0 is none.
var optional = []string{"fd", "qpn", "psn", "page", "srq"}

// number is the value of a field.
func (n *names) number(name string, v uint64) string {
	kind := kinds[name]
	switch {
	case kind != "" && !(v == 0 && slices.Contains(optional, kind)):
		return n.of(kind, v)
	case v == 0:
		return absent
	case name == "Response":
		return "an address"
	}
	return fmt.Sprintf("%#x", v)
}

// fields adds those of the struct T of the kernel's that b holds. It shows if b is not
// as long as that.
func fields[T any](a *act, n *names, prefix string, b []byte) {
	var v T
	copied := copy(uapi.Bytes(&v), b)
	a.addStruct(n, prefix, reflect.ValueOf(v))
	if len(b) != len(uapi.Bytes(&v)) {
		a.add(prefix+"length", "%d", len(b))
		a.add(prefix+"more", "%x", b[copied:])
	}
}

func (a *act) addStruct(n *names, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case name == "_":
		case f.Kind() == reflect.Struct:
			a.addStruct(n, prefix+name+".", f)
		case f.CanUint():
			a.add(prefix+name, "%s", n.number(name, f.Uint()))
		case f.CanInt():
			a.add(prefix+name, "%s", n.number(name, uint64(f.Int())))
		case f.IsZero():
			a.add(prefix+name, absent)
		default:
			b := make([]byte, f.Len())
			reflect.Copy(reflect.ValueOf(b), f)
			a.add(prefix+name, "%s", hex.EncodeToString(b))
		}
	}
}
