package rc

// Fate is what became of a received packet: it had an effect, or was dropped for a
// reason. It indexes Counters.Fates, whose sum is the number of packets received.
type Fate uint8

// The fates. A packet that only tells again what is known, such as a second
// acknowledgement, is stale; a repeated request, which is answered again, is not.
const (
	Accepted      Fate = iota
	DropState          // the queue pair is not in a state to receive it
	DropPartition      // of another partition
	DropMalformed      // no packet that its opcode could have
	DropEarly          // a request ahead of the expected one
	DropNotReady       // a request that found no receive
	DropRefused        // a request that cannot be carried out
	DropForgotten      // a repeated READ or atomic that is not remembered
	DropLost           // unreliable: of a message whose beginning was lost
	DropStale          // an answer to nothing that is outstanding
	DropGap            // a READ's or atomic's answer out of its turn: one before it was lost
	DropMisfit         // an answer that does not fit its request
	DropSyndrome       // an acknowledgement of a reserved kind
	DropKey            // datagram: another key
	DropLength         // datagram: longer than the queue pair knows

	// NumFates is the number of fates.
	NumFates = int(iota)
)
