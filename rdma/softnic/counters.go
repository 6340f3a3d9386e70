package softnic

import (
	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
)

// Counters is a snapshot of what a NIC has done and what it holds.
type Counters struct {
	// Packets and their bytes from the transport header to the pad.
	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	PacketsAccepted              uint64 // of those received: not dropped

	// Messages that were copied straight to their receiver; see Config.Packets.
	Passed uint64

	// Protocol events of all queue pairs, those that are gone included.
	RNRNaksSent          uint64 // requests that found no receive
	RNRNaksReceived      uint64
	SequenceNaksReceived uint64
	OutOfSequence        uint64 // requests that came too early: one before was lost
	Duplicates           uint64 // requests that came again
	ImpliedNaks          uint64 // answers found lost by a later one
	Retransmits          uint64 // request packets sent again
	Timeouts             uint64

	// Congestion: packets that a switch marked (ECN), and notifications of marks (CNP).
	MarksReceived, NoticesSent, NoticesReceived uint64

	// Packets dropped that did not get as far as being received, or sent.
	DropPortDown    uint64 // the port was down, or the device had failed
	DropICRC        uint64 // the invariant CRC was wrong
	DropSize        uint64 // a size that no packet has
	DropUnreachable uint64 // no link leads to the destination
	DropOverflow    uint64 // the receive backlog was full

	// Packets received and dropped, by reason: each packet received is counted by one of
	// these or by PacketsAccepted.
	DropUnknownQP uint64 // no such queue pair, or one that is not connected
	DropWrongPeer uint64 // not from the queue pair's peer
	DropTransport uint64 // of another transport than the queue pair
	DropMalformed uint64 // not a packet that its opcode can have
	DropState     uint64 // the queue pair was not in a state to receive it
	DropPartition uint64 // of another partition
	DropEarly     uint64 // requests ahead of the expected one, which was lost
	DropNotReady  uint64 // requests that found no receive
	DropRefused   uint64 // requests that cannot be carried out
	DropForgotten uint64 // repeated READs and atomics that are not remembered
	DropLost      uint64 // of messages of an unreliable connection whose beginning was lost
	DropStale     uint64 // answers to nothing that is outstanding
	DropGap       uint64 // answers of which one before was lost
	DropMisfit    uint64 // answers that do not fit their request
	DropSyndrome  uint64 // acknowledgements of a reserved kind
	DropKey       uint64 // datagrams with another key
	DropLength    uint64 // datagrams longer than the port's MTU

	Doorbells        uint64 // send doorbells
	BlueFlames       uint64 // of them with the whole entry
	Arms             uint64 // completion queue arms
	StaleArms        uint64 // arms with a used sequence number
	BadDoorbells     uint64 // stores that name no object of the page, or contradict its record
	Completions      uint64 // completion queue entries written
	ErrorCompletions uint64 // of them with an error other than a flush
	FlushCompletions uint64 // of them flushes
	Overruns         uint64 // completion queues that overran
	CompletionEvents uint64
	AsyncEvents      uint64
	Commands         uint64 // commands received
	FailedCommands   uint64 // of them refused with an errno
	LateCompletions  uint64 // delayed by faults
	HeldCompletions  uint64 // withheld by faults

	// Objects that are there now.
	Contexts, UARs, PDs, MRs, CQs, QPs, SRQs, AHs int
	EventFiles                                    int
	PinnedBytes                                   int64
}

// snapshot adds up what is counted in other places.
func (n *NIC) snapshot() Counters {
	c := n.count
	c.DropOverflow = n.overflows.Load()
	for _, l := range n.links {
		d := l.Counters().Dropped
		c.DropICRC += d[link.DropICRC]
		c.DropSize += d[link.DropSize]
		c.DropUnreachable += d[link.DropUnknown] + d[link.DropSend]
	}
	c.addProtocol(n.protocol)
	for _, q := range n.qps {
		c.addProtocol(q.proto.Counters())
	}
	return c
}

func (c *Counters) addProtocol(p rc.Counters) {
	c.Passed += p.Passed
	c.RNRNaksSent += p.OutOfBuffer
	c.RNRNaksReceived += p.NotReadyNAKs
	c.SequenceNaksReceived += p.SequenceNAKs
	c.OutOfSequence += p.OutOfSequence
	c.Duplicates += p.Duplicates
	c.ImpliedNaks += p.ImpliedNAKs
	c.Retransmits += p.RequestsRepeated
	c.Timeouts += p.Timeouts
	for f, n := range p.Fates {
		*c.fate(rc.Fate(f)) += n
	}
}

// fate is where packets are counted of which this became.
func (c *Counters) fate(f rc.Fate) *uint64 {
	return [rc.NumFates]*uint64{
		rc.Accepted:      &c.PacketsAccepted,
		rc.DropState:     &c.DropState,
		rc.DropPartition: &c.DropPartition,
		rc.DropMalformed: &c.DropMalformed,
		rc.DropEarly:     &c.DropEarly,
		rc.DropNotReady:  &c.DropNotReady,
		rc.DropRefused:   &c.DropRefused,
		rc.DropForgotten: &c.DropForgotten,
		rc.DropLost:      &c.DropLost,
		rc.DropStale:     &c.DropStale,
		rc.DropGap:       &c.DropGap,
		rc.DropMisfit:    &c.DropMisfit,
		rc.DropSyndrome:  &c.DropSyndrome,
		rc.DropKey:       &c.DropKey,
		rc.DropLength:    &c.DropLength,
	}[f]
}

// addProtocolCounters keeps the counters of a queue pair that starts over or goes.
func (n *NIC) addProtocolCounters(c rc.Counters) {
	p := &n.protocol
	p.Passed += c.Passed
	p.OutOfBuffer += c.OutOfBuffer
	p.NotReadyNAKs += c.NotReadyNAKs
	p.SequenceNAKs += c.SequenceNAKs
	p.OutOfSequence += c.OutOfSequence
	p.Duplicates += c.Duplicates
	p.ImpliedNAKs += c.ImpliedNAKs
	p.RequestsRepeated += c.RequestsRepeated
	p.Timeouts += c.Timeouts
	for f, n := range c.Fates {
		p.Fates[f] += n
	}
}

// warn tells the logger, if there is one.
func (n *NIC) warn(msg string, args ...any) {
	if n.log != nil {
		n.log.Warn(msg, append([]any{"nic", n.cfg.Name}, args...)...)
	}
	if n.tracing() {
		n.traceNote(msg, args)
	}
}

// badDoorbell counts and logs a doorbell that makes no sense. Hardware ignores
// such stores.
func (n *NIC) badDoorbell(msg string, args ...any) {
	n.count.BadDoorbells++
	n.warn(msg, args...)
}

// refusal is the error of a command: the errno that the kernel gives, and why.
func refusal(e *uapi.RequestError, n *NIC, name string) error {
	n.count.FailedCommands++
	if n.log != nil {
		n.log.Warn("command refused", "nic", n.cfg.Name, "command", name, "error", e)
	}
	return e.Errno
}
