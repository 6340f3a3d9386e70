// Package device is the part of an opened NIC that regions, completion queues
// and queue pairs share: the context and its protection domain, doorbell pages
// and records, the table that finds the queue pair of a completion, and the two
// goroutines that take events from the kernel.
package device
