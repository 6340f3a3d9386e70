// Package cq is completion queues: where a NIC reports the ends of the entries
// and receives of queue pairs.
//
// A queue counts the rooms of the queue pairs made on it, and refuses a queue
// pair it could not hold, so that it can never overflow.
//
// A program either polls, or sleeps until something completes. Sleeping takes
// three steps, because a completion may come while the program makes up its
// mind: drain the queue with Poll, ask for an event with Arm, drain it again,
// and only then sleep until the function given to Notify is called. Wait does
// all of it.
package cq
