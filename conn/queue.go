package conn

// Queue is what a Conn needs of a connected reliable queue pair and the
// completion queue that serves it.
//
// The Conn calls every method but Close with its lock held, one call at a time,
// and calls nothing after Close has begun. Completions of one direction come in
// the order of their posting.
type Queue interface {
	// PostSend posts one signalled SEND with immediate data. It starts at once; if more
	// says that another is posted next, no later than that one.
	// An empty b is a message with no bytes: it must carry no data segment.
	// The memory of b belongs to the queue until the completion with this id.
	PostSend(id uint64, b Buffer, imm uint32, more bool) error

	// PostReceive posts one receive. The memory of b belongs to the queue until
	// the completion with this id.
	PostReceive(id uint64, b Buffer) error

	// Poll fills c with completions and returns how many. It never blocks. An error
	// means that no completion will ever come again.
	Poll(c []Completion) (int, error)

	// Arm asks for one call of the notify function once a completion is added, or
	// an error makes Poll fail. It may be missed by completions already there: the
	// Conn polls again after it. Arming an armed queue changes nothing.
	Arm() error

	// Notify sets the function to call. It is called once, before the first Arm. The
	// queue calls f from a goroutine of its own and never from inside one of these
	// methods; a call for nothing is harmless.
	Notify(f func())

	// Close destroys the queue pair and its completion queue. No notify call is
	// running or will be made once it returns.
	Close() error
}

// Buffer is a range of registered memory.
type Buffer struct {
	Bytes []byte // the memory, outside the Go heap; len is the size of the buffer
	Addr  uint64 // the address the NIC knows it by
	LKey  uint32 // the local key of its memory region
}

// Slice returns the first n bytes of b.
func (b Buffer) Slice(n int) Buffer {
	b.Bytes = b.Bytes[:n]
	return b
}

// Completion is the end of one posted entry.
type Completion struct {
	ID      uint64 // as posted
	Receive bool   // which ring the entry was on; set on errors too
	Bytes   uint32 // length of the message received
	Imm     uint32 // its immediate data
	HasImm  bool   // false: the message carried none
	Err     error  // nil on success, else the reason, usually a *verbs.StatusError
	Flushed bool   // Err says only that the queue pair was already in error
}
