// Vmrun runs tests on real kernels, in virtual machines: see package vmtest.
//
//	go run ./internal/vmtest/vmrun [flags] [job ...]
//
// A job is a package of this module, whose test binary is run, or a shell script
// (*.sh). Without jobs it is the project's own: suite.go. It must be run in the
// module's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/farwire/farwire/internal/vmtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "vmrun:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	kernels string
	test    string
	setup   string
	nic     string // link layer of the software ConnectX; empty for none
	timeout time.Duration
	verbose bool
	table   bool
	matrix  matrix
	need    bool
	config  vmtest.Config
}

func parse(args []string) (*options, []string, error) {
	o := &options{}
	f := flag.NewFlagSet("vmrun", flag.ContinueOnError)
	f.StringVar(&o.kernels, "kernels", "all", "kernels to boot, separated by commas; newest is the newest")
	f.StringVar(&o.test, "test", ".", "run the tests that match, of the packages named as jobs")
	f.StringVar(&o.nic, "nic", "", "give the machine a software ConnectX with a port of this link layer, ib or eth, and run what is for that")
	f.StringVar(&o.setup, "setup", "", "shell script that sets the machine up, instead of the one that makes rxe0")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "what a job may take")
	f.BoolVar(&o.verbose, "v", false, "show the output of jobs that succeed too")
	f.BoolVar(&o.table, "matrix", false, "print at the end how each test ended on each kernel")
	f.BoolVar(&o.need, "need", os.Getenv("FARWIRE_NEED_VM") != "", "fail, rather than skip, where virtual machines cannot be had")
	f.StringVar(&o.config.QEMU, "qemu", "", "QEMU's program (default qemu-system-x86_64)")
	f.IntVar(&o.config.CPUs, "cpus", 0, "processors of the machine (default 2)")
	f.IntVar(&o.config.Memory, "memory", 0, "memory of the machine in MiB (default 1024)")
	err := f.Parse(args)
	if err == nil && o.nic != "" && o.nic != "ib" && o.nic != "eth" {
		err = fmt.Errorf("link layer %q: ib or eth", o.nic)
	}
	return o, f.Args(), err
}

func run(ctx context.Context, args []string) error {
	o, names, err := parse(args)
	if err != nil {
		return err
	}
	kernels, err := vmtest.FindKernels(o.kernels)
	if err != nil {
		return err
	}
	if err := vmtest.Available(o.config.QEMU); err != nil {
		if o.need {
			return err
		}
		fmt.Println("skipped:", err)
		return nil
	}
	temp, err := os.MkdirTemp("", "farwire-vmrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if o.nic != "" && o.config.CPUs == 0 {
		o.config.CPUs = 1
	}
	if err := o.prepare(ctx, names, temp); err != nil {
		return err
	}
	if o.nic != "" {
		nic, err := o.startNIC(ctx, temp)
		if err != nil {
			return err
		}
		defer nic.stop()
	}
	var failed error
	for _, k := range kernels {
		failed = errors.Join(failed, o.runOn(ctx, k))
	}
	if o.table {
		o.matrix.print(os.Stdout)
	}
	return failed
}

// runOn runs the jobs on one kernel and prints the table of how they ended.
func (o *options) runOn(ctx context.Context, k vmtest.Kernel) error {
	cache, err := vmtest.CacheDir()
	if err != nil {
		return err
	}
	cfg := o.config
	if cfg.Kernel, err = vmtest.Fetch(ctx, cache, k); err != nil {
		return err
	}
	if cfg.Userland, err = vmtest.FetchUserland(ctx, cache); err != nil {
		return err
	}
	fmt.Printf("Linux %s%s\n", cfg.Kernel.Version, o.port())
	results, err := vmtest.Run(ctx, cfg)
	judge(results)
	bad := o.print(os.Stdout, results)
	o.matrix.add(cfg.Kernel.Version, results)
	if err == nil && bad > 0 {
		err = fmt.Errorf("kernel %s: %d of %d jobs failed", k.Name, bad, len(results))
	}
	return err
}
