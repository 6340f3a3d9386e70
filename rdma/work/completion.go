package work

import (
	"errors"
	"strconv"

	"github.com/farwire/farwire/rdma/verbs"
)

// Ring names one of the two rings of a queue pair.
type Ring uint8

const (
	// Sends is the ring of entries: sends, writes, reads and atomics.
	Sends Ring = iota
	// Receives is the ring of receives.
	Receives
)

// String is "sends" or "receives".
func (r Ring) String() string {
	switch r {
	case Sends:
		return "sends"
	case Receives:
		return "receives"
	}
	return "Ring(" + strconv.Itoa(int(r)) + ")"
}

// Op is what an entry of a queue pair does, and what a completion is of.
type Op uint8

const (
	Send        Op = iota + 1 // bytes into the peer's oldest receive
	SendImm                   // the same, and 32 bits for the peer's completion
	Write                     // bytes into a region of the peer
	WriteImm                  // the same, and 32 bits that use up a receive of the peer
	Read                      // bytes from a region of the peer
	CompareSwap               // 8 bytes at the peer replaced if they are as expected
	FetchAdd                  // 8 bytes at the peer added to

	Receive      // of the receive ring: a Send or SendImm of the peer arrived
	ReceiveWrite // of the receive ring: a WriteImm of the peer arrived
)

var opNames = [...]string{
	Send: "send", SendImm: "send with immediate", Write: "write", WriteImm: "write with immediate",
	Read: "read", CompareSwap: "compare and swap", FetchAdd: "fetch and add",
	Receive: "receive", ReceiveWrite: "receive of a write",
}

// String is the operation in words.
func (o Op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}

// Completion is the end of one entry or receive. If Status is not
// verbs.Success, only ID, QPN, Ring, Op, Status, Syndrome and Vendor mean
// anything; the bytes of the entry's memory are then unspecified.
type Completion struct {
	ID   uint64 // as it was posted
	QPN  uint32 // number of the queue pair
	Ring Ring
	Op   Op // of a failed receive always Receive

	Status   verbs.Status
	Syndrome uint8 // the NIC's own code for a failure, 0 otherwise
	Vendor   uint8 // the vendor's detail of it

	Bytes     uint32 // moved into local memory: of Receive, ReceiveWrite, Read and the atomics
	Imm       uint32 // the peer's 32 bits, if HasImm
	HasImm    bool
	Solicited bool // the peer asked for an event

	// Unexpected says that the NIC wrote an entry this library did not ask for:
	// a kind it does not know, a queue pair that is not there, or an index that
	// was not outstanding. It frees no slot, and ID is 0. It is a fault of the
	// NIC or of this library.
	Unexpected bool
}

// ErrUnexpected is what Err wraps for a completion of an unexpected kind.
var ErrUnexpected = errors.New("completion of an unexpected kind")

// Err is nil for a success, a *verbs.StatusError for a failure, and an error
// that wraps ErrUnexpected for a completion of an unexpected kind. Only a
// success allocates nothing.
func (c *Completion) Err() error {
	switch {
	case c.Unexpected:
		return &unexpectedError{qpn: c.QPN}
	case c.Status != verbs.Success:
		return &verbs.StatusError{
			Status: c.Status, Syndrome: c.Syndrome, Vendor: c.Vendor, Opcode: c.Op.String(), QPN: c.QPN,
		}
	}
	return nil
}

type unexpectedError struct{ qpn uint32 }

func (e *unexpectedError) Error() string {
	return ErrUnexpected.Error() + " (queue pair " + strconv.FormatUint(uint64(e.qpn), 10) + ")"
}

func (e *unexpectedError) Unwrap() error { return ErrUnexpected }
