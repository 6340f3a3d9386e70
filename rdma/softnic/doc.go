// Package softnic is a ConnectX in software: a NIC of the mlx5 family behind
// verbs.File.
//
// A driver opens it as it opens a device node. It answers the uverbs commands
// byte for byte, hands out doorbell pages, fetches work queue entries from
// memory when a doorbell is rung, speaks the protocols of RoCE v2 to its peers,
// reliable and unreliable connections and datagrams, and writes completion queue entries, completion events
// and asynchronous events back, as the hardware and its kernel driver do.
//
// It is strict. A reserved bit set, a wrong segment count, a stale index, an
// unknown key, an access out of bounds or a transition the state machine does
// not have is answered with the errno or the error completion a real NIC
// gives; the reason goes to the NIC's logger and its counters.
//
// NICs of one process reach each other in memory, over the Network they share,
// and a NIC reaches itself. NICs of different processes and machines reach each
// other by UDP, with RoCE v2 packets on port 4791. Packets and completions can
// be impaired on purpose (Faults).
//
// A NIC has no thread of its own that polls: work is done by the goroutine that
// rings a doorbell or delivers a packet. An idle NIC uses no CPU.
package softnic
