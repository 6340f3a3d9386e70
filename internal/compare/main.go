// Compare measures connections of this module beside TCP and Unix sockets on one
// machine: the time until a small message comes back, how much goes one way, and what
// processor time that takes.
//
//	compare [-all] [-connections n] [-rounds n] [-slice duration] [-links names] [-profile directory]
//
// Each link has two processes, a client and a server, but for the one in memory, which
// has both in one. They measure in turns, each for a slice of time in every round. The
// figures are medians of the rounds; so are the ratios, each of which is of one round,
// so that what else the machine does weighs little. A ratio is how many times faster
// than TCP a link is, and how many times the processor time of TCP it takes. With -all
// there are more sizes, 16 and 256 connections, HTTP, and streams of yamux. With -profile every process writes a profile of its processor time into the directory.
//
// With -connections it makes so many connections of each link that has two processes, and
// prints how fast they are made, what memory and files each takes, and what a message
// costs beside one of ten connections.
//
// It is also its own processes:
//
//	compare server LINK           prints its address, and serves until its input ends
//	compare client LINK ADDRESS   measures what its input asks for
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// options are how a comparison is made.
type options struct {
	groups  []group
	rounds  int
	slice   time.Duration
	links   []string
	profile string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) >= 2 && (args[0] == "server" || args[0] == "client") {
		return play(args, stdin, stdout)
	}
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.IntVar(&o.rounds, "rounds", 7, "`number` of rounds")
	flags.DurationVar(&o.slice, "slice", 300*time.Millisecond, "`time` of one measurement")
	all := flags.Bool("all", false, "measure everything")
	many := flags.Int("connections", 0, "measure so `many` connections at once")
	names := flags.String("links", strings.Join(linkNames(), ","), "`names` of the links; tcp is always one")
	flags.StringVar(&o.profile, "profile", "", "`directory` for profiles")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.slice <= 0 {
		return fmt.Errorf("%d rounds of %v", o.rounds, o.slice)
	}
	o.groups = basic
	if *all {
		o.groups = everything
	}
	o.links = strings.Split(*names, ",")
	switch {
	case *many == 0:
		return compare(ctx, o, stdout)
	case *many <= fewConnections:
		return fmt.Errorf("%d connections: they are compared with %d", *many, fewConnections)
	}
	return connections(ctx, o, *many, stdout)
}
