// Package region is memory regions: memory that a NIC may read and write.
//
// A region is pinned for as long as it is open. Its local key lets this
// process's queue pairs use it; its remote key lets the peers of queue pairs
// that were connected with the same access reach it, if the region grants it.
package region
