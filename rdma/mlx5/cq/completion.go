package cq

import "github.com/farwire/farwire/rdma/work"

// Completion is the end of one entry or receive.
type Completion = work.Completion

// ErrUnexpected is what Completion.Err wraps for a completion of an unexpected
// kind.
var ErrUnexpected = work.ErrUnexpected

// Ring names one of the two rings of a queue pair.
type Ring = work.Ring

// The rings of a queue pair.
const (
	Sends    = work.Sends
	Receives = work.Receives
)

// Op is what an entry of a queue pair does, and what a completion is of.
type Op = work.Op

// The operations.
const (
	Send         = work.Send
	SendImm      = work.SendImm
	Write        = work.Write
	WriteImm     = work.WriteImm
	Read         = work.Read
	CompareSwap  = work.CompareSwap
	FetchAdd     = work.FetchAdd
	Receive      = work.Receive
	ReceiveWrite = work.ReceiveWrite
)
