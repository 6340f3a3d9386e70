package prm

import "fmt"

// WQEError is an entry of a send or receive queue that does not follow its
// layout. Offset is where in the entry, in bytes; Value is what was found there.
type WQEError struct {
	Reason Reason
	Opcode Opcode // of a send queue entry, as far as it could be read
	Offset int
	Value  uint64
}

// Error names the reason, the place and the value.
func (e *WQEError) Error() string {
	return fmt.Sprintf("work queue entry: %v: %#x at byte %d of %v", e.Reason, e.Value, e.Offset, e.Opcode)
}

// Reason is what is wrong with a work queue entry.
type Reason uint8

// The reasons of a WQEError.
const (
	Truncated       Reason = iota + 1 // fewer bytes than the layout, or than DS units
	UnknownOpcode                     // no operation of this type of queue pair
	UnknownModifier                   // an opcode modifier
	UnknownFlags                      // flags of the control segment that have no meaning
	BadSize                           // DS (or a stride) that the operation's segments cannot add up to
	ReservedBits                      // a reserved field that is not 0
	EmptySegment                      // a data or inline segment of no bytes
	BadInline                         // inline bytes where none may be, or beside other segments
	InlineTooLong                     // inline bytes beyond the entry's DS units
	AtomicLength                      // an atomic whose local memory is not 8 bytes
	ShortAddress                      // a datagram whose address is not of the long form
)

var reasons = [...]string{
	Truncated:       "truncated",
	UnknownOpcode:   "unknown opcode",
	UnknownModifier: "unknown opcode modifier",
	UnknownFlags:    "unknown control flags",
	BadSize:         "size does not fit the operation",
	ReservedBits:    "reserved bits set",
	EmptySegment:    "segment of no bytes",
	BadInline:       "inline data not allowed",
	InlineTooLong:   "inline data longer than the entry",
	ShortAddress:    "address vector is not extended",
	AtomicLength:    "atomic operand is not 8 bytes",
}

// String describes the reason in a few words.
func (r Reason) String() string {
	if int(r) < len(reasons) && reasons[r] != "" {
		return reasons[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}
