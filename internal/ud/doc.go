// Package ud is the unreliable datagram of RoCE v2 and InfiniBand without any input
// or output: packets and work go in, packets and completions come out. Works,
// receives, states, syndromes and counters are those of package rc.
//
// A datagram is one packet to a queue pair that the work names. It is complete as
// soon as it is on its way; nobody answers. What arrives for a queue pair that does
// not want it, by its key, its partition, its state or for want of a receive, is
// dropped without a word.
//
// The peer is hostile until checked: no packet makes the package panic, allocate, or
// ask the host for a byte outside the receive.
//
// Rules are those of the InfiniBand Architecture Specification, volume 1, sections
// 9.8.3 and 10.2.5, with annex A17 (RoCE v2).
package ud
