// Streams runs many yamux streams over one connection of queue pairs.
//
//	go run ./examples/streams                        server and client in one process
//	go run ./examples/streams -listen :7490          a server
//	go run ./examples/streams -dial localhost:7490   a client of that server
//
// Each stream sends bytes of its own to the server, which sends them back;
// the client checks that nothing was lost or mixed up.
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

	"github.com/hashicorp/yamux"

	"github.com/farwire/farwire/rdma"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

// run is the program. A server ends when ctx does.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("streams", flag.ContinueOnError)
	listen := flags.String("listen", "", "serve on this `address` and do nothing else")
	dial := flags.String("dial", "", "open streams to the server at this `address`")
	streams := flags.Int("n", 32, "`streams` side by side")
	size := flags.Int64("bytes", 1<<20, "`bytes` each stream sends")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *listen != "" && *dial != "":
		return fmt.Errorf("-listen and -dial are two programs: start each")
	case *streams < 1 || *size < 1:
		return fmt.Errorf("-n %d -bytes %d: at least one of each must be sent", *streams, *size)
	case *dial != "":
		return client(ctx, *dial, *streams, *size, stdout)
	}
	address := "127.0.0.1:0"
	if *listen != "" {
		address = *listen
	}
	ln, err := rdma.Listen("rdma", address)
	if err != nil {
		return err
	}
	defer ln.Close()
	if *listen != "" {
		fmt.Fprintln(stdout, "listening on", ln.Addr())
		defer context.AfterFunc(ctx, func() { ln.Close() })()
		return serve(ln)
	}
	go serve(ln)
	return client(ctx, ln.Addr().String(), *streams, *size, stdout)
}

// serve echoes every stream of every connection until ln is closed.
func serve(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go echoStreams(c)
	}
}

// echoStreams echoes the streams of one connection until its peer is gone.
func echoStreams(c net.Conn) {
	session, err := yamux.Server(c, config())
	if err != nil {
		c.Close()
		return
	}
	defer session.Close()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer stream.Close()
			io.Copy(stream, stream)
		}()
	}
}

// config is yamux's own but for its log, which would tell of each closed connection.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	return c
}
