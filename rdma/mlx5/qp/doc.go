// Package qp is reliable-connected queue pairs: a send ring, and a receive ring
// if it was made with one, connected to one queue pair of a peer.
//
// Entries of the send ring send messages, write and read regions of the peer
// and do atomic operations on them. They run in order, and their completions
// come in order. A message lands in the oldest receive the peer posted and has
// not filled; one that finds none is retried without end, and lands once the
// peer posts one. A queue pair of this library asks its peer to retry 0.64 ms
// later. A message longer than its receive fails the receive, the queue pair and
// its peer's.
//
// Posting writes entries into the ring; Ring hands them to the NIC, all at once.
// Submit does both for a list of entries, and ReceiveAll posts a list of receives, at
// less than the cost of one by one. None allocates or makes a system call.
package qp
