package rxe

import "github.com/farwire/farwire/rdma/work"

// The identifier of an entry or receive, which its completion brings back: bits 15:0
// are its counter, bit 16 its ring, and the rest the queue pair's id, which is not
// used again.
const (
	ringShift = 16
	pairShift = 17
)

func makeID(pair uint64, ring work.Ring, counter uint32) uint64 {
	return pair<<pairShift | uint64(ring)<<ringShift | uint64(uint16(counter))
}

func splitID(id uint64) (pair uint64, ring work.Ring, counter uint16) {
	return id >> pairShift, work.Ring(id >> ringShift & 1), uint16(id)
}
