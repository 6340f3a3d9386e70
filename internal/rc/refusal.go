package rc

import "github.com/farwire/farwire/internal/roce"

// A refusal is a way in which a request ends the queue pair: what the peer is
// told, what the host is told, and how the receive completes that the request
// has taken, if it has.
type refusal struct {
	nak     roce.Syndrome
	event   EventKind
	receive Syndrome
	text    string
}

func (r *refusal) Error() string { return r.text }

// The refusals (sections 9.7.4 and 9.9).
var (
	refuseMalformed  = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "malformed request"}
	refuseOrder      = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "packet does not belong to an open message"}
	refuseInside     = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "new message inside an open one"}
	refuseRight      = &refusal{roce.NAKInvalidRequest, AccessError, Flushed, "queue pair does not allow this access"}
	refuseDepth      = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "too many READs and atomics outstanding"}
	refuseLength     = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "length of the request is wrong"}
	refuseTooLong    = &refusal{roce.NAKInvalidRequest, RequestError, LocalLength, "message is longer than the receive"}
	refuseAlignment  = &refusal{roce.NAKInvalidRequest, RequestError, Flushed, "atomic address is not a multiple of 8"}
	refuseKey        = &refusal{roce.NAKRemoteAccess, AccessError, LocalAccess, "key does not allow this access"}
	refuseInvalidate = &refusal{roce.NAKRemoteAccess, AccessError, LocalAccess, "key cannot be invalidated"}

	// The receive completes with the host's own syndrome.
	refuseReceive = &refusal{roce.NAKRemoteOperation, Fatal, Flushed, "receive cannot be written"}

	// Not a refusal: the peer is asked to come again later.
	notReady = &refusal{text: "no receive is posted"}
)
