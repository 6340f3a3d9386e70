package work

// Entry is one operation. The zero values of the fields that Op has no use for
// are right.
type Entry struct {
	Op Op
	ID uint64 // the caller's, for the completion

	// Local is this process's memory: what to send or write, or where to put what
	// is read; for the atomics, 8 bytes for what was there before. Locals go on
	// where Local ends. Segments of no bytes do not count. The memory must stay
	// registered and, to be sent, unchanged until the entry completes.
	Local  Segment
	Locals []Segment

	// Inline is bytes to send or write instead of Local and Locals. They are
	// copied into the ring, so the slice may be any memory and is free when Post
	// returns.
	Inline []byte

	Remote Target // memory of the peer: of all but Send and SendImm
	Imm    uint32 // of SendImm and WriteImm

	Compare, Swap uint64 // of CompareSwap
	Add           uint64 // of FetchAdd

	Signaled  bool // completes also in success, and with it all entries before
	Fence     bool // starts only when all reads and atomics before it are done
	Solicited bool // wakes a peer that waits for solicited events: of Send, SendImm, WriteImm
}
