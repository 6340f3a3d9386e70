// Http serves and fetches over queue pairs with an unchanged net/http.
//
//	go run ./examples/http                        server and client in one process
//	go run ./examples/http -listen :7480          a server
//	go run ./examples/http -dial localhost:7480   a client of that server
//
// The client measures small requests, then streams a large body each way and
// compares checksums.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/farwire/farwire/rdma"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// run is the program. A server ends when ctx does.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	listen := flags.String("listen", "", "serve on this `address` and do nothing else")
	dial := flags.String("dial", "", "fetch from the server at this `address`")
	var load load
	flags.DurationVar(&load.period, "t", 2*time.Second, "how `long` to send small requests")
	flags.Int64Var(&load.body, "body", 256, "`MiB` of the large body")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *listen != "" && *dial != "":
		return fmt.Errorf("-listen and -dial are two programs: start each")
	case load.period <= 0 || load.body < 1:
		return fmt.Errorf("-t %v -body %d: at least some time and one MiB are needed", load.period, load.body)
	case *dial != "":
		return client(ctx, *dial, load, stdout)
	case *listen != "":
		return server(ctx, *listen, stdout)
	}
	return both(ctx, load, stdout)
}

// server serves until ctx ends.
func server(ctx context.Context, address string, stdout io.Writer) error {
	ln, err := rdma.Listen("rdma", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", ln.Addr())
	return serve(ctx, ln)
}

func serve(ctx context.Context, ln net.Listener) error {
	s := &http.Server{Handler: handler()}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// both runs a server and a client of it in this process.
func both(ctx context.Context, load load, stdout io.Writer) error {
	ln, err := rdma.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	err = client(ctx, ln.Addr().String(), load, stdout)
	stop()
	return errors.Join(err, <-served)
}
