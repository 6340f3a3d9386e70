package uapi

import (
	"encoding/binary"
	"errors"
)

// ErrNoSpace reports a command that does not fit the memory given to it.
var ErrNoSpace = errors.New("command does not fit its memory")

// MaxAttrs is the most attributes a [Command] can hold.
const MaxAttrs = 30

// payload is where input and output bytes begin, after the header and the
// room for MaxAttrs attributes.
const payload = 512

// Room returns how much memory a command needs whose attributes carry inputs
// and outputs of the given lengths.
func Room(lengths ...int) int {
	n := payload
	for _, l := range lengths {
		n += align8(l)
	}
	return n
}

// A Command is built in memory that the kernel reads and writes by address
// while the ioctl runs, so the memory must lie outside the Go heap and must not
// be moved or freed until the results have been read.
//
// Use: Begin, one call for each attribute in order, Bytes, the ioctl, then Data
// and the slices that Out returned. A Command is not safe for concurrent use.
type Command struct {
	mem   []byte
	addr  uint64
	attrs int
	next  int
	err   error
}

// Begin starts a new command in mem, which lies at address addr and is 8-byte
// aligned, and forgets any earlier one.
func (c *Command) Begin(mem []byte, addr uint64, object, method uint16, driver uint32) {
	*c = Command{mem: mem, addr: addr, next: payload}
	if len(mem) < payload {
		c.err = ErrNoSpace
		return
	}
	clear(mem[:HeaderSize])
	binary.NativeEndian.PutUint16(mem[hdrObject:], object)
	binary.NativeEndian.PutUint16(mem[hdrMethod:], method)
	binary.NativeEndian.PutUint32(mem[hdrDriver:], driver)
}

// In adds an input. Eight bytes or fewer travel inside the attribute; more are
// copied into the command's memory and passed by address.
func (c *Command) In(id uint16, b []byte) {
	if len(b) <= InlineMax {
		var inline [InlineMax]byte
		copy(inline[:], b)
		c.add(id, len(b), binary.NativeEndian.Uint64(inline[:]))
		return
	}
	if at, ok := c.reserve(len(b)); ok {
		copy(c.mem[at:], b)
		c.add(id, len(b), c.addr+uint64(at))
	}
}

// Out adds an output of n bytes and returns where it will be, zeroed now. The
// slice is nil if the command is already in error.
func (c *Command) Out(id uint16, n int) []byte {
	at, ok := c.reserve(n)
	if !ok {
		return nil
	}
	c.add(id, n, c.addr+uint64(at))
	out := c.mem[at : at+n : at+n]
	clear(out)
	return out
}

// Const adds a constant: a command number, a port, a type. Its length is always 8.
func (c *Command) Const(id uint16, v uint64) { c.add(id, 8, v) }

// Object adds the handle of an existing object, or a descriptor.
func (c *Command) Object(id uint16, handle uint64) { c.add(id, 0, handle) }

// NewObject adds room for the handle or descriptor of the object that the
// method creates, and returns the index to give to Data afterwards.
func (c *Command) NewObject(id uint16) int {
	c.add(id, 0, 0)
	return c.attrs - 1
}

// Optional lets the kernel ignore the attribute added last if it does not know it.
func (c *Command) Optional() {
	if c.err == nil && c.attrs > 0 {
		binary.NativeEndian.PutUint16(c.attr(c.attrs - 1)[attrFlags:], 0)
	}
}

// Bytes completes the header and returns the command, header and attributes
// only. The error is ErrNoSpace.
func (c *Command) Bytes() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	n := HeaderSize + AttrSize*c.attrs
	binary.NativeEndian.PutUint16(c.mem[hdrLength:], uint16(n))
	binary.NativeEndian.PutUint16(c.mem[hdrNumAttrs:], uint16(c.attrs))
	return c.mem[:n:n], nil
}

// Data returns the data word of attribute i: after the ioctl, the handle the
// kernel wrote there. It panics if there is no such attribute.
func (c *Command) Data(i int) uint64 {
	if i < 0 || i >= c.attrs {
		panic("uapi: no such attribute")
	}
	return binary.NativeEndian.Uint64(c.attr(i)[attrData:])
}

func (c *Command) attr(i int) []byte {
	return c.mem[HeaderSize+AttrSize*i:][:AttrSize]
}

func (c *Command) add(id uint16, n int, data uint64) {
	if c.err != nil {
		return
	}
	if c.attrs == MaxAttrs {
		c.err = ErrNoSpace
		return
	}
	a := c.attr(c.attrs)
	binary.NativeEndian.PutUint16(a[attrID:], id)
	binary.NativeEndian.PutUint16(a[attrLen:], uint16(n))
	binary.NativeEndian.PutUint16(a[attrFlags:], FlagMandatory)
	binary.NativeEndian.PutUint16(a[attrReserved:], 0)
	binary.NativeEndian.PutUint64(a[attrData:], data)
	c.attrs++
}

// reserve takes n bytes of payload. An attribute's length is 16 bits wide.
func (c *Command) reserve(n int) (at int, ok bool) {
	if c.err == nil && (n > 0xffff || n > len(c.mem)-c.next) {
		c.err = ErrNoSpace
	}
	if c.err != nil {
		return 0, false
	}
	at = c.next
	c.next = min(at+align8(n), len(c.mem))
	return at, true
}

func align8(n int) int { return (n + 7) &^ 7 }
