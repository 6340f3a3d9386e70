package uapi

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// A RequestError says why a command is refused. It unwraps to the errno the
// kernel would return.
type RequestError struct {
	Errno  syscall.Errno
	Reason string
}

func (e *RequestError) Error() string { return e.Reason + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *RequestError) Unwrap() error { return e.Errno }

func refuse(errno syscall.Errno, format string, args ...any) error {
	return &RequestError{errno, fmt.Sprintf(format, args...)}
}

// A Request is a view of a received command: header and attributes, as they lie
// in the caller's bytes. It is valid as long as those bytes are.
type Request struct{ b []byte }

// Parse checks the header of the command in b, in the kernel's order (Linux
// uverbs_ioctl.c, ib_uverbs_ioctl), and returns a view of it. Bytes after the
// length that the header gives are not looked at. The errors are:
//
//   - EFAULT: b ends before the header, or before the length it gives
//   - EINVAL: the length is not that of the header and its attributes, or is
//     more than MaxCommand
//   - EPROTONOSUPPORT: a reserved word of the header is not zero
//
// Attributes are not checked here; see [Table.Match].
func Parse(b []byte) (Request, error) {
	if len(b) < HeaderSize {
		return Request{}, refuse(syscall.EFAULT, "header of %d bytes", len(b))
	}
	length := int(binary.NativeEndian.Uint16(b[hdrLength:]))
	num := int(binary.NativeEndian.Uint16(b[hdrNumAttrs:]))
	switch {
	case length > MaxCommand:
		return Request{}, refuse(syscall.EINVAL, "length %d is over %d", length, MaxCommand)
	case length != HeaderSize+AttrSize*num:
		return Request{}, refuse(syscall.EINVAL, "length %d with %d attributes", length, num)
	case binary.NativeEndian.Uint64(b[hdrReserved1:]) != 0 || binary.NativeEndian.Uint32(b[hdrReserved2:]) != 0:
		return Request{}, refuse(syscall.EPROTONOSUPPORT, "reserved word of the header is set")
	case length > len(b):
		return Request{}, refuse(syscall.EFAULT, "length %d in %d bytes", length, len(b))
	}
	return Request{b[:length:length]}, nil
}

// CommandLength is the length, in bytes, that the header in b gives: how much of
// a command must be copied from its caller before [Parse] judges it. b has
// HeaderSize bytes or more.
func CommandLength(b []byte) int { return int(binary.NativeEndian.Uint16(b[hdrLength:])) }

// Object returns the object id.
func (r Request) Object() uint16 { return binary.NativeEndian.Uint16(r.b[hdrObject:]) }

// Method returns the method id.
func (r Request) Method() uint16 { return binary.NativeEndian.Uint16(r.b[hdrMethod:]) }

// Driver returns the driver id the caller believes the device to have.
func (r Request) Driver() uint32 { return binary.NativeEndian.Uint32(r.b[hdrDriver:]) }

// NumAttrs returns the number of attributes.
func (r Request) NumAttrs() int { return (len(r.b) - HeaderSize) / AttrSize }

// At returns attribute i. It panics if there is none.
func (r Request) At(i int) Attr {
	return Attr(r.b[HeaderSize:][i*AttrSize : (i+1)*AttrSize : (i+1)*AttrSize])
}

// Find returns the first attribute with the given id, or nil.
func (r Request) Find(id uint16) Attr {
	for i := range r.NumAttrs() {
		if a := r.At(i); a.ID() == id {
			return a
		}
	}
	return nil
}

// An Attr is a view of one attribute, 16 bytes. A nil Attr is an absent
// attribute: its accessors return zero values.
type Attr []byte

func (a Attr) u16(at int) uint16 {
	if a == nil {
		return 0
	}
	return binary.NativeEndian.Uint16(a[at:])
}

// ID returns the attribute's id.
func (a Attr) ID() uint16 { return a.u16(attrID) }

// Len returns the length in bytes of what the attribute carries.
func (a Attr) Len() int { return int(a.u16(attrLen)) }

// Flags returns the flags.
func (a Attr) Flags() uint16 { return a.u16(attrFlags) }

// Mandatory reports whether a kernel that does not know the attribute must
// refuse the command.
func (a Attr) Mandatory() bool { return a.Flags()&FlagMandatory != 0 }

// Reserved returns the reserved word.
func (a Attr) Reserved() uint16 { return a.u16(attrReserved) }

// Data returns the data word: an address, a handle, a descriptor or a constant.
func (a Attr) Data() uint64 {
	if a == nil {
		return 0
	}
	return binary.NativeEndian.Uint64(a[attrData:])
}

// Inline returns the input bytes that lie inside the attribute, or nil if the
// input is longer and Data is its address.
func (a Attr) Inline() []byte {
	if n := a.Len(); a != nil && n <= InlineMax {
		return a[attrData : attrData+n : attrData+n]
	}
	return nil
}

// SetData stores the handle or descriptor of a new object in the attribute.
func (a Attr) SetData(v uint64) { binary.NativeEndian.PutUint64(a[attrData:], v) }

// SetValid marks the output as written.
func (a Attr) SetValid() { binary.NativeEndian.PutUint16(a[attrFlags:], a.Flags()|FlagValidOutput) }
