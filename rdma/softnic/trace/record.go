// Package trace is what passes between a software NIC and the programs that use it:
// as records of raw bytes, and as a log for people to read.
//
// A NIC calls the function in softnic.Config.Trace with each Record. Log is such a
// function: it writes one line for each (docs/trace.md has the format).
package trace

import (
	"slices"
	"syscall"
)

// Kind says what a Record tells of, and with that which of its fields mean something
// besides NIC, File and Process.
type Kind uint8

// The kinds.
const (
	// Open and Close: a file of the NIC was opened or closed.
	Open Kind = iota + 1
	Close

	// Ioctl: a command was executed or refused. Command, Errno, Reason.
	Ioctl

	// Map: a doorbell page was mapped, or that was refused. Offset, Length,
	// Number (of the page), Errno, Reason.
	Map

	// Doorbell: a register of a doorbell page was found rung. Number (of the
	// page), Offset (of the register), Bytes, Rings, BlueFlame.
	Doorbell

	// RecordRead: a word of a doorbell record was read. Queue and Number,
	// Address, Bytes: the word, as it lies in memory. The same value is read
	// again and again.
	RecordRead

	// Work: a work queue entry was fetched. Queue and Number, QPType, Index,
	// Address, Bytes; Reason if it cannot be used. Bytes are those of the entry's
	// size, or of a whole stride; an entry may go on at the start of the ring. They are
	// fewer where the entry's size made no sense, and none where it could not be read.
	Work

	// Completion: a completion queue entry was written. Queue and Number, Index,
	// Address, Bytes; Reason, the vendor syndrome in words, if it is an error. Bytes
	// are 64, or 128 where data lies in front of the entry.
	Completion

	// CompletionEvent and AsyncEvent: an event was raised. FD, Bytes: the record that
	// is read from it; Queue and Number of what it is about, if it is about a queue.
	CompletionEvent
	AsyncEvent

	// Note: what the NIC tells its logger, but for refused commands. Reason.
	Note
)

// Queue is a kind of queue, or the words of a queue's doorbell record.
type Queue uint8

// The queues. Number is that of the queue pair, the shared receive queue or the
// completion queue.
const (
	NoQueue         Queue = iota
	SendQueue             // of a queue pair
	ReceiveQueue          // of a queue pair
	SharedQueue           // a shared receive queue
	CompletionQueue       // and the consumer index of its record
	ArmWord               // of a completion queue's record
	QueuePair             // as a whole
)

// A Record is one thing that passed between a NIC and a program: raw, as the program
// said it or will see it. The record and all that it refers to are valid during the
// call only; Clone makes one to keep.
type Record struct {
	Kind    Kind
	NIC     string // device name
	File    int    // number of the open file, from 1 on, on this NIC
	Process int    // number of the process that opened the file, issued the command or made the object

	Errno  syscall.Errno // 0: done
	Reason string

	Queue   Queue
	Number  uint32
	Index   uint32 // counter of a send queue's blocks or a queue's entries, free running (16 bits of a send or receive queue); of a shared queue, the entry's
	QPType  uint8  // of the queue pair that fetches: 2 reliable, 3 unreliable connection, 4 datagrams
	Address uint64 // in the process's memory
	FD      int    // event descriptor, as the process numbers it

	Offset int64 // into the file, or into the doorbell page
	Length int

	// Rings is how often the register was rung since the NIC looked before; 0 where
	// that cannot be known, as for programs in other processes. Of several
	// doorbells only the latest's word can be known, and Bytes is empty if even
	// that was overtaken.
	Rings int

	// BlueFlame reports that an entry came with the doorbell: what lies behind the
	// register's word is not what lay there before. An entry that is equal to the one
	// before it at the register, but for its word, is not known from that one. Bytes
	// is the whole of a send register in any case, and the word of 8 bytes alone of
	// another.
	BlueFlame bool

	Bytes   []byte
	Command *Command
}

// A Command is a uverbs command as it came over the ioctl, and what became of it.
type Command struct {
	// Bytes are the header and the attributes as they came; Result is the same
	// afterwards, with the handles made and the outputs marked.
	Bytes, Result []byte

	Object, Method uint16
	Write          uint32 // the command number of an INVOKE_WRITE, object 0 method 0
	Name           string // as GET_CONTEXT; "" if the NIC knows none

	// Attrs are the attributes in their order; none if the header was refused.
	Attrs []Attr

	// Objects are those the command named or made, in the order in which the NIC
	// came to them.
	Objects []Object
}

// Find is the first attribute with an id, or nil.
func (c *Command) Find(id uint16) *Attr {
	for i := range c.Attrs {
		if c.Attrs[i].ID == id {
			return &c.Attrs[i]
		}
	}
	return nil
}

// An Attr is an attribute of a command.
type Attr struct {
	ID     uint16
	Length int
	Flags  uint16
	Data   uint64 // address, handle, descriptor or the bytes of a short input
	Result uint64 // Data afterwards
	New    bool   // it is for the handle, or the descriptor, of what the command makes

	In  []byte // what an input holds, wherever it lies; nil if it cannot be read
	Out []byte // what was written to an output; nil if nothing was
}

// An Object is an object of the file as a command met it.
type Object struct {
	Kind   uint16 // as the kernel numbers them: 1 PD, 3 CQ, 4 QP, 5 SRQ, 6 AH, 7 MR, 0x1008 doorbell page
	Handle uint32
	Number uint32 // on the NIC; a region's is its key, an address handle has none
	State  uint8  // of a queue pair, before the command
	New    bool   // the command made it
}

// Clone is a copy that shares nothing with r.
func (r *Record) Clone() *Record {
	c := *r
	c.Bytes = slices.Clone(r.Bytes)
	if r.Command != nil {
		c.Command = r.Command.clone()
	}
	return &c
}

func (c *Command) clone() *Command {
	d := *c
	d.Bytes, d.Result = slices.Clone(c.Bytes), slices.Clone(c.Result)
	d.Attrs, d.Objects = slices.Clone(c.Attrs), slices.Clone(c.Objects)
	for i := range d.Attrs {
		a := &d.Attrs[i]
		a.In, a.Out = slices.Clone(a.In), slices.Clone(a.Out)
	}
	return &d
}
