// Package conn is net.Conn over a connected reliable queue pair.
//
// Only SEND and RECV are used, so the queue pair grants its peer no access to
// memory. What follows is the protocol; another implementation needs no more than
// this and docs/bootstrap.md.
//
// # Messages
//
// Each side posts the number of receives it announced in the bootstrap exchange,
// all of the size it announced, before the other side may send. Every message is a
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
//	grants    how many receives that held data messages the sender has posted
//	          again, modulo 2^16
//
// FIN and STOP are said once each. Counts only grow, and never beyond what was
// sent. A side that meets anything else closes the connection.
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
// # Probes
//
// A side that has heard nothing for a while may send a probe, if it has a credit: an
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
// Control messages are never reported on their own account, so reports do not
// answer each other. TestFlowExplored walks through every order of events of small
// windows and checks all of this; docs/flow-control.md tells what it covers.
package conn
