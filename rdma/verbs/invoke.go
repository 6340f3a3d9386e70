package verbs

import (
	"fmt"
	"os"

	"github.com/farwire/farwire/internal/uapi"
)

// An Attr is one attribute of a command: see [Context.Invoke].
type Attr struct {
	id       uint16
	kind     attrKind
	optional bool
	value    uint64
	bytes    []byte
	handle   *uint32
}

type attrKind uint8

const (
	attrNone attrKind = iota
	attrIn
	attrOut
	attrConst
	attrObject
	attrNew
)

// AttrIn is an input of any length. An empty one is left out of the command.
func AttrIn(id uint16, b []byte) Attr {
	if len(b) == 0 {
		return Attr{}
	}
	return Attr{id: id, kind: attrIn, bytes: b}
}

// AttrOut is an output that is copied to b when the command has succeeded. An
// empty one is left out of the command.
func AttrOut(id uint16, b []byte) Attr {
	if len(b) == 0 {
		return Attr{}
	}
	return Attr{id: id, kind: attrOut, bytes: b}
}

// AttrConst is a constant: a type, a port, a command number.
func AttrConst(id uint16, v uint64) Attr { return Attr{id: id, kind: attrConst, value: v} }

// AttrObject is the handle of an existing object, or a descriptor.
func AttrObject(id uint16, handle uint32) Attr {
	return Attr{id: id, kind: attrObject, value: uint64(handle)}
}

// AttrNewObject stores the handle or descriptor that the command creates in
// *handle when it has succeeded.
func AttrNewObject(id uint16, handle *uint32) Attr {
	return Attr{id: id, kind: attrNew, handle: handle}
}

// Optional returns a that a kernel which does not know it may ignore. Attributes
// are mandatory otherwise.
func (a Attr) Optional() Attr {
	a.optional = true
	return a
}

func inValue[T any](id uint16, v T) Attr   { return AttrIn(id, uapi.Bytes(&v)) }
func outValue[T any](id uint16, v *T) Attr { return AttrOut(id, uapi.Bytes(v)) }

// Invoke issues a native command, for objects and methods that belong to a
// driver. call is the name used in errors. Outputs and handles are stored only
// if it succeeds.
func (c *Context) Invoke(call string, object, method uint16, attrs ...Attr) error {
	return c.invoke(op{name: call}, object, method, attrs...)
}

// An op is what a command does, for errors.
type op struct {
	name  string
	pins  bool   // the kernel pins memory for it
	bytes uint64 // how much, 0 if not known
}

// write issues a command through INVOKE_WRITE. req and resp are the core
// structures, in and out the driver's parts; any may be empty.
func (c *Context) write(o op, cmd uint32, req, resp, in, out []byte) error {
	return c.invoke(o, uapi.ObjectDevice, uapi.MethodInvokeWrite,
		AttrConst(uapi.AttrWriteCmd, uint64(cmd)),
		AttrIn(uapi.AttrCoreIn, req), AttrOut(uapi.AttrCoreOut, resp),
		AttrIn(uapi.AttrUHWIn, in), AttrOut(uapi.AttrUHWOut, out))
}

// ring is write for the commands that Soft-RoCE's data path consists of: a request
// and, of out bytes that mean nothing, a response. It allocates nothing once as many
// commands have run at once before.
func (c *Context) ring(o op, cmd uint32, req []byte, out int) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return os.ErrClosed
	}
	mem, err := c.scratch.get(uapi.Room(len(req), out))
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	defer c.scratch.put(mem)

	var command uapi.Command
	command.Begin(mem.Bytes(), mem.Addr(), uapi.ObjectDevice, uapi.MethodInvokeWrite, uint32(c.driver))
	command.Const(uapi.AttrWriteCmd, uint64(cmd))
	command.In(uapi.AttrCoreIn, req)
	if out > 0 {
		command.Out(uapi.AttrCoreOut, out)
	}
	b, err := command.Bytes()
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	if err := c.file.Ioctl(b); err != nil {
		return fileError(o, err)
	}
	return nil
}

func (c *Context) invoke(o op, object, method uint16, attrs ...Attr) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return os.ErrClosed
	}
	mem, err := c.scratch.get(room(attrs))
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	defer c.scratch.put(mem)

	var cmd uapi.Command
	cmd.Begin(mem.Bytes(), mem.Addr(), object, method, uint32(c.driver))
	outs := make([][]byte, len(attrs))
	news := make([]int, len(attrs))
	for i, a := range attrs {
		outs[i], news[i] = a.add(&cmd)
	}
	b, err := cmd.Bytes()
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	if err := c.file.Ioctl(b); err != nil {
		return fileError(o, err)
	}
	for i, a := range attrs {
		switch a.kind {
		case attrOut:
			copy(a.bytes, outs[i])
		case attrNew:
			*a.handle = uint32(cmd.Data(news[i]))
		}
	}
	return nil
}

func (a Attr) add(cmd *uapi.Command) (out []byte, index int) {
	switch a.kind {
	case attrNone:
		return nil, 0
	case attrIn:
		cmd.In(a.id, a.bytes)
	case attrOut:
		out = cmd.Out(a.id, len(a.bytes))
	case attrConst:
		cmd.Const(a.id, a.value)
	case attrObject:
		cmd.Object(a.id, a.value)
	case attrNew:
		index = cmd.NewObject(a.id)
	}
	if a.optional {
		cmd.Optional()
	}
	return out, index
}

func room(attrs []Attr) int {
	lengths := make([]int, len(attrs))
	for i, a := range attrs {
		lengths[i] = len(a.bytes)
	}
	return uapi.Room(lengths...)
}
