// Cost compares what the mlx5 driver of this module costs the processor with what
// libmlx5 does, operation by operation.
//
//	cost [-cc compiler]
//
// It runs two programs that do the same work, libmlx5/cost.c and itself, on a
// software NIC that moves nothing (softnic.Config.Null) in this process, and prints
// for each operation the instructions and the nanoseconds of both. docs/cost.md says
// how they are counted. It is also the parts that it runs in other processes:
//
//	cost go count|time                 the work on this module's driver
//	cost trace program [argument ...]  the instructions between a program's marks
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/farwire/farwire/internal/interpose"
)

// init keeps main on the first thread, which is the one that is traced.
func init() { runtime.LockOSThread() }

func main() {
	interpose.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 2 && args[0] == "go" {
		return work(args[1], stdout)
	}
	if len(args) > 1 && args[0] == "trace" {
		return trace(args[1:], stdout)
	}
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	flags.SetOutput(stdout)
	cc := flags.String("cc", "cc", "C `compiler`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return compare(ctx, *cc, stdout)
}
