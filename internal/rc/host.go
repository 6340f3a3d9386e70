package rc

// Host is the NIC around one queue pair: its queues, its completions and the
// memory behind its keys. The queue pair calls it from inside its own methods,
// on the caller's goroutine; a Host method must not call the queue pair back.
//
// Byte slices belong to the queue pair and are valid during the call only.
// Offsets never exceed the bounds that Work.Length, TakeReceive and
// CheckRemote have set.
type Host interface {
	// Gather copies len(p) bytes of the local data of w into p, from byte off
	// on. It is called again for a packet that is sent again. A syndrome other
	// than OK ends w with it, once every earlier work has completed, and the
	// queue pair with w. Not called for messages of length zero.
	Gather(w *Work, off uint32, p []byte) Syndrome

	// Scatter copies p, part of the answer to the READ or atomic w, into the
	// local memory of w at byte off. The old value of an atomic is 8 bytes in
	// the byte order of this machine. A syndrome other than OK ends w with it.
	Scatter(w *Work, off uint32, p []byte) Syndrome

	// CompleteSend reports that w is done, in the order of posting, exactly
	// once per work: n bytes with OK, or a syndrome and 0. w is valid during
	// the call.
	CompleteSend(w *Work, s Syndrome, n uint32)

	// TakeReceive takes the next posted receive and returns how many bytes it
	// has room for; ok is false if none is posted. It is followed by exactly
	// one CompleteReceive before the next TakeReceive, unless the queue pair
	// is reset. An unreliable connection keeps the receive of a message that was
	// lost for the next one, and fills it from the beginning.
	TakeReceive() (capacity uint32, ok bool)

	// PutReceive copies p into the taken receive at byte off; off+len(p) is at
	// most its capacity. It is called at least once for the receive of a SEND,
	// with an empty p if the message is empty, so that a host which finds only
	// then that it cannot use the receive can say so.
	PutReceive(off uint32, p []byte) Syndrome

	// CompleteReceive reports that the taken receive is done.
	CompleteReceive(a Arrival)

	// CheckRemote says whether the peer may do a with n bytes (n > 0) at va by
	// the key: the key exists and belongs to the protection domain of the queue
	// pair, allows a, and its region contains all of [va, va+n).
	CheckRemote(rkey uint32, va uint64, n uint32, a Access) bool

	// WriteRemote and ReadRemote copy between p and the memory at va, inside a
	// range that CheckRemote has allowed. false means that the key is no longer
	// good.
	WriteRemote(rkey uint32, va uint64, p []byte) bool
	ReadRemote(rkey uint32, va uint64, p []byte) bool

	// Atomic carries out OpCompareSwap or OpFetchAdd on the 8 bytes at va,
	// which is a multiple of 8 that CheckRemote has allowed, and returns the
	// value before.
	Atomic(rkey uint32, va uint64, op Op, swapAdd, compare uint64) (old uint64, ok bool)

	// Invalidate makes the key useless, as the peer asks with
	// OpSendInvalidate; false if there is no such key or it cannot be.
	Invalidate(rkey uint32) bool

	// Event reports something about the queue pair as a whole.
	Event(e Event)
}

// Access is a set of what the peer may do.
type Access uint8

// The rights of the peer.
const (
	RemoteWrite Access = 1 << iota
	RemoteRead
	RemoteAtomic
)

// An Event is news about the queue pair as a whole.
type Event struct {
	Kind  EventKind
	Cause error // why, for a log; nil for Established
}

// EventKind says what the host has to do about an [Event].
type EventKind uint8

// The events. At most one of RequestError, AccessError and Fatal comes before
// FlushReceives.
const (
	// Established: the first request has arrived while the queue pair could only receive.
	Established EventKind = iota + 1
	// RequestError: the peer's request was invalid.
	RequestError
	// AccessError: the peer asked for memory it may not touch.
	AccessError
	// Fatal: a local error while carrying out a request of the peer.
	Fatal
	// FlushReceives: the queue pair is in error. The host completes every
	// posted receive, and each posted from now on, with Flushed. Works of the
	// send queue have been completed by then.
	FlushReceives
)

func (k EventKind) String() string {
	switch k {
	case Established:
		return "communication established"
	case RequestError:
		return "invalid request"
	case AccessError:
		return "access error"
	case Fatal:
		return "local error"
	case FlushReceives:
		return "flush receives"
	}
	return "unknown event"
}
