// Package srq is shared receive queues: receives that wait for the messages of any number
// of queue pairs, so that memory is bound to what arrives and not to who might send.
//
// A queue pair takes its receives from a shared receive queue if it is made with one
// (qp.Config.SRQ). A message takes the oldest receive posted, whichever queue pair it comes
// to, and completes in that queue pair's completion queue. Its slot is free once that
// completion has been polled, in any order. A message that finds no receive is retried
// without end, as on a queue pair's own ring; SetLimit asks for an event before it comes to
// that.
//
// A peer can use up every receive there is, so a program that does not trust all of its
// peers bounds what each may send, by credits for example.
package srq
