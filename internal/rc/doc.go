// Package rc is the reliable connection of RoCE v2 and InfiniBand without any
// input or output: packets, work and the time go in, packets and completions
// come out. The unreliable connection is the same without acknowledgements: works
// complete when they are sent, and messages of which a packet is lost never arrive.
//
// A [QP] joins the two halves of a queue pair. The requester (requester*.go)
// cuts posted work into request packets, keeps a bounded window of them
// outstanding, and brings each work to its completion through losses, negative
// acknowledgements and receivers that are not ready. The responder
// (responder*.go) checks what the peer asks for, carries it out once and
// answers. Whatever is around them, the queues, the memory and the wire, is
// behind [Host] and the packet buffers of the caller.
//
// The peer is hostile until checked: no sequence of packets makes the package
// panic, allocate, or ask the host for a byte outside the receive or the range
// that the host has granted.
//
// Rules are those of the InfiniBand Architecture Specification, volume 1,
// chapter 9 (transport layer), with annex A17 (RoCE v2).
package rc
