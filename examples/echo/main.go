// Echo sends messages over queue pairs and measures how long they take to come back.
//
//	go run ./examples/echo                        server and client in one process
//	go run ./examples/echo -listen :7471          a server
//	go run ./examples/echo -dial localhost:7471   a client of that server
//
// The connection is an ordinary net.Conn. With no RDMA hardware it runs over
// the software NIC; FARWIRE_DEVICE chooses another device by name.
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

	"github.com/farwire/farwire/rdma"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// run is the program. A server ends when ctx does.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", "", "serve on this `address` and do nothing else")
	dial := flags.String("dial", "", "measure against the server at this `address`")
	count := flags.Int("n", 20000, "`messages` of each size")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *listen != "" && *dial != "":
		return fmt.Errorf("-listen and -dial are two programs: start each")
	case *count < 1:
		return fmt.Errorf("-n %d: at least one message must be sent", *count)
	case *listen != "":
		return server(ctx, *listen, stdout)
	case *dial != "":
		return client(ctx, *dial, *count, stdout)
	}
	return both(ctx, *count, stdout)
}

// server echoes every connection until ctx ends.
func server(ctx context.Context, address string, stdout io.Writer) error {
	ln, err := rdma.Listen("rdma", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", ln.Addr())
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	return serve(ln)
}

// serve echoes connections until ln is closed.
func serve(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}

// both runs a server and a client of it in this process.
func both(ctx context.Context, count int, stdout io.Writer) error {
	ln, err := rdma.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	go serve(ln)
	return client(ctx, ln.Addr().String(), count, stdout)
}
