package qp

import "github.com/farwire/farwire/rdma/work"

// Entry is one operation.
type Entry = work.Entry

// Op is what an entry does.
type Op = work.Op

// The operations of entries.
const (
	Send        = work.Send        // bytes into the peer's oldest receive
	SendImm     = work.SendImm     // the same, and Imm for the peer's completion
	Write       = work.Write       // bytes to Remote
	WriteImm    = work.WriteImm    // the same, and Imm, which uses up a receive of the peer
	Read        = work.Read        // bytes from Remote
	CompareSwap = work.CompareSwap // the 8 bytes at Remote become Swap if they are Compare
	FetchAdd    = work.FetchAdd    // Add is added to the 8 bytes at Remote
)

// Ring names one of a queue pair's rings.
type Ring = work.Ring

// The rings of a queue pair.
const (
	Sends    = work.Sends
	Receives = work.Receives
)
