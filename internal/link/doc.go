// Package link is where RoCE packets travel: an in-memory network, UDP port 4791,
// both at once, and wrappers that spoil the traffic on purpose. A trunk, over a
// connection such as a Unix socket, makes one in-memory network of several processes'.
//
// A link belongs to one address and one receiver. Packets go out with Send and
// come in as calls of the receiver. A packet's Buf runs from the base transport
// header to the pad: the invariant CRC is the links' own affair, added where the
// way can damage a packet (UDP, an Impaired link that corrupts) and checked and
// taken off before the receiver sees it.
//
// Like a wire, a link may lose, repeat and reorder packets; it reports none of
// this to the sender, only counts it.
package link
