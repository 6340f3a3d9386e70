package rc

// Op is what a work asks for, and what an arrival was.
type Op uint8

// The operations of a reliable connection.
const (
	OpNop            Op = iota // nothing: completes in its turn, sends no packet
	OpSend                     // Length bytes into the peer's next receive
	OpSendImm                  // the same, with Imm
	OpSendInvalidate           // the same; the peer's key Imm is invalidated
	OpWrite                    // Length bytes to RKey, Remote
	OpWriteImm                 // the same, and Imm into the peer's next receive
	OpRead                     // Length bytes from RKey, Remote
	OpCompareSwap              // 8 bytes at RKey, Remote: if equal to Compare, becomes SwapAdd
	OpFetchAdd                 // 8 bytes at RKey, Remote: SwapAdd is added
)

var opNames = [...]string{"nop", "send", "send with immediate", "send with invalidate", "write",
	"write with immediate", "read", "compare and swap", "fetch and add"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown operation"
}

func (o Op) known() bool   { return int(o) < len(opNames) }
func (o Op) isSend() bool  { return o >= OpSend && o <= OpSendInvalidate }
func (o Op) isWrite() bool { return o == OpWrite || o == OpWriteImm }
func (o Op) isAtomic() bool {
	return o == OpCompareSwap || o == OpFetchAdd
}

// isAnswered says that the operation is completed by data the peer returns, not by an acknowledgement.
func (o Op) isAnswered() bool { return o == OpRead || o.isAtomic() }

// isUnreliable says that the unreliable connection has the operation.
func (o Op) isUnreliable() bool {
	return o == OpNop || o == OpSend || o == OpSendImm || o.isWrite()
}

// TakesReceive says that the operation consumes a receive of the peer.
func (o Op) TakesReceive() bool { return o.isSend() || o == OpWriteImm }

// A Work is one entry of the send queue. The queue pair keeps a copy from
// [QP.Post] until [Host.CompleteSend]; the local memory stays with the host,
// which finds it by Slot.
type Work struct {
	Slot    uint32 // the host's name for the entry, not interpreted
	Op      Op
	Length  uint32 // bytes, at most MaxMessage; not used by OpNop and atomics (always 8)
	Remote  uint64 // virtual address at the peer
	RKey    uint32
	Imm     uint32 // immediate data, or the key of OpSendInvalidate
	SwapAdd uint64
	Compare uint64

	Fence     bool // starts only after every earlier READ and atomic has completed
	Solicited bool // the peer's completion of this SEND or WRITE with immediate is solicited

	// Fault is for an entry the host could not read. If not zero the work sends
	// nothing, and ends the queue pair with this syndrome in its turn.
	Fault Syndrome
}

// MaxMessage is the longest message in bytes. Even at the smallest MTU it is
// 2^22 packets, so that old and new sequence numbers stay apart.
const MaxMessage = 1 << 30

// An Arrival is the completion of one receive.
type Arrival struct {
	Op        Op     // OpSend, OpSendImm, OpSendInvalidate or OpWriteImm
	Bytes     uint32 // bytes in the receive; for OpWriteImm bytes written to the region
	Imm       uint32 // immediate data, or the key that was invalidated
	HasImm    bool
	Solicited bool
	Syndrome  Syndrome // not OK: the other fields but Op mean nothing
}
