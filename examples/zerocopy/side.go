package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

const (
	blockSize = 64 << 10
	blocks    = 16 // of the memory lent
)

// side is one end: a NIC, a queue pair on it, and memory.
type side struct {
	name   string
	nic    *mlx5.NIC
	done   *cq.Queue
	pair   *qp.Pair
	memory *region.Region
	soft   *softnic.NIC // below nic, unless that is hardware

	tell *json.Encoder // to the peer, over TCP
	hear *json.Decoder // from it
}

// offer is what one side tells the other over TCP.
type offer struct {
	Endpoint verbs.Endpoint
	Memory   region.Target // where a borrower may write and read
	Length   int
}

// newSide opens a NIC and makes memory that access lets the peer use.
func newSide(access region.Access) (s *side, err error) {
	s = &side{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.open(os.Getenv(rdma.DeviceEnv)); err != nil {
		return nil, err
	}
	if s.memory, err = region.Alloc(s.nic, access, blocks*blockSize); err != nil {
		return nil, err
	}
	if s.done, err = cq.New(s.nic, blocks); err != nil {
		return nil, err
	}
	s.pair, err = qp.New(s.done, qp.Config{Sends: blocks, Receives: 0})
	return s, err
}

func (s *side) open(device string) (err error) {
	s.name = device
	if device != "" && device != rdma.Soft {
		s.nic, err = mlx5.Open(device)
		return err
	}
	config, err := softnic.ConfigFromEnv()
	if err != nil {
		return err
	}
	if s.soft, err = softnic.New(config); err != nil {
		return err
	}
	s.name = s.soft.Name() + " (software)"
	file, err := s.soft.Open()
	if err != nil {
		return err
	}
	s.nic, err = mlx5.OpenFile(file, mlx5.Config{})
	return err
}

// meet swaps offers over c and connects the queue pair. The peer may do access to
// this side's regions.
func (s *side) meet(c net.Conn, access region.Access) (theirs offer, err error) {
	target, err := s.memory.Remote(0)
	if err != nil {
		return offer{}, err
	}
	mine := offer{Endpoint: s.pair.Endpoint(), Memory: target, Length: int(s.memory.Len())}
	s.tell, s.hear = json.NewEncoder(c), json.NewDecoder(c)
	if err := s.tell.Encode(mine); err != nil {
		return offer{}, err
	}
	if err := s.hear.Decode(&theirs); err != nil {
		return offer{}, fmt.Errorf("peer's offer: %w", err)
	}
	return theirs, s.pair.Connect(access, theirs.Endpoint)
}

// close gives everything back in the opposite order it was made.
func (s *side) close() error {
	var errs []error
	if s.pair != nil {
		errs = append(errs, s.pair.Destroy())
	}
	if s.done != nil {
		errs = append(errs, s.done.Close())
	}
	if s.memory != nil {
		errs = append(errs, s.memory.Close())
	}
	if s.nic != nil {
		errs = append(errs, s.nic.Close())
	}
	if s.soft != nil {
		errs = append(errs, s.soft.Close())
	}
	return errors.Join(errs...)
}
