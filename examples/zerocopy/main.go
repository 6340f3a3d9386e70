// Zerocopy writes and reads a peer's memory with the raw packages: the peer's program
// takes no part in it and has no receive posted.
//
//	go run ./examples/zerocopy                        both sides in one process
//	go run ./examples/zerocopy -listen :7501          the side that lends its memory
//	go run ./examples/zerocopy -dial localhost:7501   the side that uses it
//
// The two meet over TCP, where the lender hands out its memory's address and key.
// Both use the software NIC unless FARWIRE_DEVICE names another device. On two machines
// each tells its software NIC the machine's address: FARWIRE_SOFTNIC=addr=10.0.0.1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "zerocopy:", err)
		os.Exit(1)
	}
}

// run is the program. A lender ends when ctx does.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("zerocopy", flag.ContinueOnError)
	listen := flags.String("listen", "", "lend memory to whoever connects to this `address`")
	dial := flags.String("dial", "", "use the memory of the lender at this `address`")
	count := flags.Int("n", 4096, "`blocks` of 64 KiB to write and read back, at least 16")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *listen != "" && *dial != "":
		return fmt.Errorf("-listen and -dial are two programs: start each")
	case *count < blocks: // each has to be written and come back
		return fmt.Errorf("-n %d: at least %d blocks must be moved", *count, blocks)
	case *dial != "":
		return borrow(ctx, *dial, *count, stdout)
	case *listen == "":
		return both(ctx, *count, stdout)
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", ln.Addr())
	return lendAll(ctx, ln, stdout)
}

// both lends memory to itself.
func both(ctx context.Context, count int, stdout io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	lent := make(chan error, 1)
	go func() { lent <- lendAll(ctx, ln, stdout) }()
	err = borrow(ctx, ln.Addr().String(), count, stdout)
	stop()
	return errors.Join(err, <-lent)
}

// lendAll lends to whoever connects until ctx ends. What goes wrong with one peer is
// no matter to the others.
func lendAll(ctx context.Context, ln net.Listener, stdout io.Writer) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	var lending sync.WaitGroup
	defer lending.Wait()
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		lending.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			if err := lend(c); err != nil && ctx.Err() == nil {
				fmt.Fprintf(stdout, "lending to %v: %v\n", c.RemoteAddr(), err)
			}
		})
	}
}
