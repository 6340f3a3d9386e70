// Package conn is net.Conn over a connected reliable queue pair.
//
// Only SEND and RECV are used, so the queue pair grants its peer no access to
// memory. What follows is the protocol; another implementation needs no more than
// this and docs/bootstrap.md.
//
// # Messages
//
// Each side posts the number of receives it announced in the bootstrap exchange as
// the first, all of the size it announced, before the other side may send. Every message is a
// SEND with immediate data that fits one of those receives. Its payload is nothing
// but the next bytes of the stream. A message with payload is a data message, and so is
// a probe; any other without payload is a control message. The 32 bits of immediate data are, from the top:
//
//	 31  30   29   28   24 23         16 15                          0
//	+---+----+-----+------+-------------+-----------------------------+
//	|FIN|STOP|PROBE| zero |  controls   |           grants            |
//	+---+----+-----+------+-------------+-----------------------------+
//
//	FIN       the payload of this message is the end of the stream
//	STOP      the sender will read no more; it drops what still comes
//	PROBE     no payload, but counted as if there were some: see below
//	controls  how many control messages the sender has received, modulo 2^8
//	grants    how many receives for data messages the sender has posted since the
//	          first, again or more of them, modulo 2^16
//
// FIN and STOP are said once each. Counts only grow, and never beyond what was
// sent; grants, if windows grow, not beyond that and the receives that were announced as
// the most, less the first. A side that meets anything else closes the connection.
//
// # Credits
//
// A side that posts R receives lets its peer have W = R - [Reserve] data messages
// and [Reserve] = 3 control messages sent and not yet counted. A receive that held
// a control message is posted again at once, one that held data once its bytes have
// been read. So the peer always finds a receive posted: receiver-not-ready does not
// occur.
//
// Both counts ride on every message. A side sends a control message
//
//   - to say FIN, when all data has been sent without it,
//   - to say STOP,
//   - to report grants, when at least T = W/2 + 1 (rounded down) have not been reported and
//     neither the peer's FIN nor its own STOP has made them pointless.
//
// # Windows that grow
//
// If both sides know of it, W is what is said above of the receives that a side posted at
// first, and may grow to the same of those it announced as the most. A side grows its window
// by posting n more receives and counting them as grants, which it may when a report is due, or is
// then, with T by the new window, and no report is on its way that the peer has not counted.
// When that is useful is its own affair: this implementation grows a window that was used up
// twice within 10 ms, and takes what it needs for messages that are borrowed.
//
// A side shrinks its window by not posting again a receive that a probe arrived in, while it
// has more than at first. What the peer was granted it cannot take back; so a side that has not
// written for a while, and was granted more than the first window, sends probes for all of its credits.
//
// # Probes
//
// A side that has heard nothing for a while, or that gives back a larger window, may send a
// probe, if it has a credit: an
// acknowledgement tells its NIC that the peer's is there, and a missing one that it is not. A
// probe is a data message of no bytes, read as soon as it is seen, so what is said of
// data holds for it, and it needs no receives of its own. Nobody answers a probe.
//
// # Why it cannot lock up
//
// Data waits for grants, and grants may need a control message, so a control
// message must never wait for the peer. At most three are ever unaccounted for: one
// FIN, one STOP and one report of grants. That there is only one report is because
// T is more than half of W. Let a side report v grants, the report before having
// said u, so v ≥ u + T. As long as the peer has not seen v it cannot have sent more
// than u + W data messages, so the side cannot have posted more than u + W ≤ v + W - T
// receives. The next report is due at v + T, which is more than that because 2T > W.
// So a second report is due only after data has arrived that was sent in answer to
// the first, and that data counts the first as received.
//
// Where windows grow, let W and T be those after the report that says v. Its growth was
// counted before it, so v ≥ u + T holds: growing by n adds n to what is unreported, and no more than n to
// T. None is counted until the report is known, and shrinking lowers W and T together, so the
// side still cannot have posted more than u + W, and the next report is due later than that.
//
// Control messages are never reported on their own account, so reports do not
// answer each other. TestFlowExplored walks through every order of events of small
// windows and checks all of this; docs/flow-control.md tells what it covers.
package conn
