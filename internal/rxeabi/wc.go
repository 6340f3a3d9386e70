package rxeabi

// Opcodes of completions (ib_verbs.h, enum ib_wc_opcode), which only successful
// ones have. Those of the send ring say what the entry was, which the poster knows.
const (
	CompletedReceive      = 128
	CompletedReceiveWrite = 129
)

// CompletedWithImm is the flag of a completion with immediate data (ib_verbs.h,
// enum ib_wc_flags).
const CompletedWithImm = 1 << 1
