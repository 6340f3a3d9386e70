package srq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/mlx5/srq"
	"github.com/farwire/farwire/rdma/softnic"
)

// check keeps the example short.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Two queue pairs, each its own peer, take their receives from one queue, and the
// completions say whose message is in which.
func Example() {
	soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory})
	check(err)
	file, err := soft.Open() // mlx5.Open("mlx5_0") where there is a ConnectX
	check(err)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	check(err)
	sent, err := cq.New(nic, 64)
	check(err)
	received, err := cq.New(nic, 64)
	check(err)
	mr, err := region.Alloc(nic, region.Local, 4096)
	check(err)
	shared, err := srq.New(nic, srq.Config{Receives: 31})
	check(err)
	var pairs [2]*qp.Pair
	for i := range pairs {
		pairs[i], err = qp.New(sent, qp.Config{Sends: 4, ReceiveQueue: received, SRQ: shared})
		check(err)
		check(pairs[i].Connect(region.Local, pairs[i].Endpoint()))
	}

	const slot = 64
	for i := range 4 {
		check(shared.Receive(uint64(i), mr.Local(i*slot, slot)))
	}
	for i, p := range pairs {
		check(p.Post(qp.Entry{Op: qp.Send, Inline: fmt.Appendf(nil, "from %d", i)}))
		p.Ring()
		check(received.Wait(context.Background()))
		var c [1]cq.Completion
		_, err := received.Poll(c[:])
		check(err)
		check(c[0].Err())
		fmt.Printf("%s, to %d, in receive %d\n", mr.Bytes()[c[0].ID*slot:][:c[0].Bytes], i, c[0].ID)
	}

	for _, p := range pairs {
		check(p.Destroy())
	}
	check(shared.Close())
	check(sent.Close())
	check(received.Close())
	check(mr.Close())
	check(nic.Close())
	check(soft.Close())
	// Output:
	// from 0, to 0, in receive 0
	// from 1, to 1, in receive 1
}
