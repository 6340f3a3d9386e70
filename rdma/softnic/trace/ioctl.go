package trace

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/farwire/farwire/internal/uapi"
)

// ioctl writes a command: its name, what it says, " = ", and what came of it.
func (l *line) ioctl(r *Record) {
	c := r.Command
	if c == nil {
		c = &Command{}
	}
	attrs := c.attrs()
	switch {
	case c.Name != "":
		l.word(c.Name)
	default:
		l.word("IOCTL")
		l.hex("object", uint64(c.Object))
		l.hex("method", uint64(c.Method))
	}
	if c.invokes() && uapi.WriteOf(c.Write) == nil {
		l.hex("write", uint64(c.Write))
	}
	if len(c.Attrs) == 0 && len(c.Bytes) > 0 && r.Errno != 0 {
		l.bytes("bytes", c.Bytes)
	}
	for i := range c.Attrs {
		c.Attrs[i].input(l, c, attrs)
	}
	l.result(r)
	for i := range c.Attrs {
		c.Attrs[i].output(l, c, attrs, r.Errno == 0)
	}
}

// invokes reports whether the command travels in an INVOKE_WRITE.
func (c *Command) invokes() bool {
	return c.Object == uapi.ObjectDevice && c.Method == uapi.MethodInvokeWrite
}

// destroys reports whether the command ends the objects it names, or may.
func (c *Command) destroys() bool { return strings.Contains(c.Name, "DESTROY") }

// shown is how the attribute is shown; known is false if the method has none with
// its id.
func (a *Attr) shown(attrs map[uint16]attr) (t attr, known bool) {
	if t, known = attrs[a.ID]; !known {
		t.name = fmt.Sprintf("attr_%#x", a.ID)
	}
	return t, known
}

// input writes what an attribute tells the kernel.
func (a *Attr) input(l *line, c *Command, attrs map[uint16]attr) {
	t, known := a.shown(attrs)
	switch {
	case t.quiet, len(a.Out) > 0:
	case a.In != nil:
		t.write(l, c, a.In)
	case a.Length == 0 && !a.New:
		l.value(c, t.name, a.Data)
	case !known:
		l.dec(t.name+"_length", uint64(a.Length))
	}
}

// output writes what an attribute brought back. Nothing was made unless the command was
// executed.
func (a *Attr) output(l *line, c *Command, attrs map[uint16]attr, executed bool) {
	t, _ := a.shown(attrs)
	switch {
	case len(a.Out) > 0:
		t.write(l, c, a.Out)
	case a.New && executed:
		l.value(c, t.name, a.Result)
	}
}

// attr is how an attribute is shown: a number by default.
type attr struct {
	name  string
	show  show
	quiet bool // as an input it says nothing more than the command's name
}

func (t attr) write(l *line, c *Command, b []byte) {
	switch {
	case t.show != nil:
		t.show(l, c, b)
	case len(b) == 8:
		l.value(c, t.name, binary.NativeEndian.Uint64(b))
	case len(b) == 4:
		l.value(c, t.name, uint64(binary.NativeEndian.Uint32(b)))
	default:
		l.bytes(t.name, b)
	}
}

// attrs are the attributes of the command's method.
func (c *Command) attrs() map[uint16]attr {
	if !c.invokes() {
		return natives[[2]uint16{c.Object, c.Method}]
	}
	v := invokes[c.Write]
	raw := func(s show, name string) attr { return attr{name: name, show: s} }
	return map[uint16]attr{
		uapi.AttrWriteCmd: {quiet: true},
		uapi.AttrCoreIn:   raw(v.in, "core_in"), uapi.AttrCoreOut: raw(v.out, "core_out"),
		uapi.AttrUHWIn: raw(v.driverIn, "uhw_in"), uapi.AttrUHWOut: raw(v.driverOut, "uhw_out"),
	}
}
