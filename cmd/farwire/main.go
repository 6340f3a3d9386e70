// Farwire is the project's command-line tool.
//
//	farwire run [flags] -- program args [::: program args ...]
//
// runs programs on software NICs; see farwire run -h.
//
//	farwire devices [-json] [-to host]
//
// lists RDMA devices, or tells which of them a connection would use, and why.
//
//	farwire vm-nic -socket path [flags]
//
// gives a virtual machine a software NIC as a PCI device.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/farwire/farwire/internal/interpose"
)

func main() {
	interpose.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "farwire:", err)
	os.Exit(exitCode(err))
}

const usage = `usage: farwire command [arguments]

The commands are:

	run      run programs that use RDMA on software NICs
	devices  list RDMA devices; explain which one a connection would use
	vm-nic   give a virtual machine a software NIC

farwire command -h tells about a command.`

// run is the tool.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	switch args[0] {
	case "run":
		return runPrograms(ctx, args[1:], stdout)
	case "devices":
		return systemLister().devices(ctx, args[1:], stdout)
	case "vm-nic":
		return vmNIC(ctx, args[1:], stdout)
	case "help", "-h", "-help", "--help":
		fmt.Fprintln(stdout, usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

// exitCode is that of the program that failed, if one did.
func exitCode(err error) int {
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		return failed.ExitCode()
	}
	return 1
}
