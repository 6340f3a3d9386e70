// Package nic is the part of an opened NIC that every driver has: the context
// with its protection domain and memory regions, the two goroutines that take
// events from the kernel and wake completion queues, the port's address, and the
// states that connect a queue pair. What rings and doorbells look like is the
// driver's.
package nic
