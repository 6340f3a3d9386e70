package ud

import "github.com/farwire/farwire/internal/rc"

// HeaderSize is how many bytes of a receive, the first, are for the network header
// that the message came with.
const HeaderSize = 40

// Host is the NIC around one queue pair. The queue pair calls it from inside its own
// methods, on the caller's goroutine; a Host method must not call the queue pair
// back. What is not said here is as in rc.Host.
type Host interface {
	// Destination prepares for the next packet that Transmit writes: it goes to
	// where w says. It returns the number of the queue pair there, and its key;
	// ok is false if no way leads there, and the datagram is lost.
	Destination(w *rc.Work) (qpn, qkey uint32, ok bool)

	Gather(w *rc.Work, off uint32, p []byte) rc.Syndrome
	CompleteSend(w *rc.Work, s rc.Syndrome, n uint32)

	// TakeReceive takes the next posted receive. It is followed by exactly one
	// CompleteReceive before the next.
	TakeReceive() (capacity uint32, ok bool)

	// PutHeader puts the network header of the packet being received into the
	// taken receive, which has room for it, and PutReceive its payload after that.
	PutHeader() rc.Syndrome
	PutReceive(off uint32, p []byte) rc.Syndrome

	// CompleteReceive reports that the taken receive is done: it holds what the
	// queue pair of number source has sent, and the header in front of it, which
	// a.Bytes counts.
	CompleteReceive(a rc.Arrival, source uint32)

	// Event reports rc.Fatal and rc.FlushReceives.
	Event(e rc.Event)
}
