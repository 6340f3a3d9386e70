package qp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// check keeps the examples short.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open is mlx5.Open("mlx5_0") where there is a ConnectX.
func open() (nic *mlx5.NIC, unplug func() error) {
	soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory})
	check(err)
	file, err := soft.Open()
	check(err)
	nic, err = mlx5.OpenFile(file, mlx5.Config{})
	check(err)
	return nic, soft.Close
}

// One side grants write access to a region and sends the other its target, by
// any means; the other writes there, and the NICs do the rest.
func Example() {
	server, unplugServer := open()
	theirs, err := region.Alloc(server, region.RemoteWrite, 4096)
	check(err)
	theirDone, err := cq.New(server, 64)
	check(err)
	theirPair, err := qp.New(theirDone, qp.Config{Sends: 1})
	check(err)
	target, err := theirs.Remote(0)
	check(err)

	nic, unplug := open()
	mr, err := region.Alloc(nic, region.Local, 4096)
	check(err)
	done, err := cq.New(nic, 256)
	check(err)
	pair, err := qp.New(done, qp.Config{Sends: 128})
	check(err)

	// Endpoints and the target are plain data, exchanged over any connection.
	check(theirPair.Connect(region.RemoteWrite, pair.Endpoint()))
	check(pair.Connect(region.Local, theirPair.Endpoint()))

	n := copy(mr.Bytes(), "no copies on the way")
	check(pair.Post(qp.Entry{Op: qp.Write, Local: mr.Local(0, n), Remote: target, Signaled: true}))
	pair.Ring() // one doorbell for all entries posted

	check(done.Wait(context.Background()))
	var completions [16]cq.Completion
	m, err := done.Poll(completions[:]) // never allocates
	check(err)
	for _, c := range completions[:m] {
		check(c.Err())
		fmt.Println(c.Op, c.Status)
	}
	fmt.Printf("%s\n", theirs.Bytes()[:n])

	for _, closeIt := range []func() error{
		pair.Destroy, done.Close, mr.Close, nic.Close, unplug,
		theirPair.Destroy, theirDone.Close, theirs.Close, server.Close, unplugServer,
	} {
		check(closeIt())
	}
	// Output:
	// write success
	// no copies on the way
}

// A queue pair may be its own peer: here it sends itself a message.
func ExamplePair_Connect() {
	nic, unplug := open()
	mr, err := region.Alloc(nic, region.Local, 4096)
	check(err)
	done, err := cq.New(nic, 64)
	check(err)
	pair, err := qp.New(done, qp.Config{Sends: 8, Receives: 8})
	check(err)
	check(pair.Connect(region.Local, pair.Endpoint()))

	check(pair.Receive(1, mr.Local(0, 100)))
	check(pair.Post(qp.Entry{Op: qp.SendImm, ID: 2, Inline: []byte("hello"), Imm: 42, Signaled: true}))
	pair.Ring()

	var completions [2]cq.Completion
	for left := 2; left > 0; {
		check(done.Wait(context.Background()))
		n, err := done.Poll(completions[:])
		check(err)
		for _, c := range completions[:n] {
			check(c.Err())
			if c.Ring == cq.Receives {
				fmt.Printf("%s, %d\n", mr.Bytes()[:c.Bytes], c.Imm)
			}
		}
		left -= n
	}
	for _, closeIt := range []func() error{pair.Destroy, done.Close, mr.Close, nic.Close, unplug} {
		check(closeIt())
	}
	// Output:
	// hello, 42
}
