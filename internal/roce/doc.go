// Package roce is the bytes of RoCE v2 as connected and datagram queue pairs use it:
// transport headers, opcodes, sequence numbers and the invariant CRC.
//
// A packet as this package sees it begins at the base transport header (BTH) and
// ends with the pad; the four bytes of the invariant CRC (ICRC) follow on a wire:
//
//	IP | UDP dst 4791 | BTH | extended headers | payload | 0-3 pad | ICRC
//	                  |<------------- Parse, Put ---------->|
//
// Headers are views: BTH, RETH and so on are byte slices with accessors, in place
// in the packet. Parse checks every length once; after it no accessor can fail.
// All multi-byte fields are big endian but the ICRC, which is little endian.
//
// Nothing here allocates, keeps state between calls or does I/O, and everything
// is safe for concurrent use. Sources: InfiniBand Architecture Specification
// volume 1, chapter 9, and annex A17 (RoCE v2).
package roce

// Port is the UDP destination port of RoCE v2 (annex A17; IANA "roce").
const Port = 4791
