package main

import (
	"crypto/sha256"
	"errors"
	"net"

	"github.com/farwire/farwire/rdma/mlx5/region"
)

// What the two say once they have met.
const (
	ready = "ready" // the lender: use the memory
	done  = "done"  // the borrower: that was all
)

// lend lets the peer at the other end of c use memory of this side, until it says it
// is done; then it tells the peer what the memory holds.
func lend(c net.Conn) (err error) {
	s, err := newSide(region.RemoteReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.meet(c, region.RemoteReadWrite); err != nil {
		return err
	}
	// From here on the peer's NIC and ours do the work. This side only waits.
	if err := s.tell.Encode(ready); err != nil {
		return err
	}
	var word string
	if err := s.hear.Decode(&word); err != nil {
		return err
	}
	return s.tell.Encode(sha256.Sum256(s.memory.Bytes()))
}
