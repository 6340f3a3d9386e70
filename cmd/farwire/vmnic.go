package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/farwire/farwire/rdma/softnic"
)

const vmNICUsage = `usage: farwire vm-nic -socket path [flags]

Gives a virtual machine a software ConnectX as a PCI device, for the drivers that its
kernel has: mlx5_core and mlx5_ib. QEMU 10.1 or later connects to the socket; the
guest's memory must be shared:

	farwire vm-nic -socket /tmp/nic.sock
	qemu-system-x86_64 -machine q35,memory-backend=m0 -m 1024 \
	  -object memory-backend-memfd,id=m0,size=1024M,share=on \
	  -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"/tmp/nic.sock"}}' ...

With -link eth the port is Ethernet: the guest's interface comes up, and the addresses it
is given are the port's RoCE v2 GIDs. Frames are not carried.

When the machine ends the next one may connect. Programs of farwire run, and other
virtual machines, are in the same network with -join, here or there.

`

func parseVMNIC(args []string, stdout io.Writer) (s settings, socket string, err error) {
	s.command = "vm-nic"
	flags := flag.NewFlagSet("farwire vm-nic", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprint(stdout, vmNICUsage)
		flags.PrintDefaults()
	}
	flags.StringVar(&socket, "socket", "", "`path` of the socket that QEMU connects to")
	flags.StringVar(&s.link, "link", "ib", "link `layer` of the NIC: ib, or eth for RoCE")
	flags.StringVar(&s.nic, "nic", "", "`settings` of the NIC, key=value,..., as FARWIRE_SOFTNIC takes them")
	flags.StringVar(&s.impair, "impair", "", "`faults`, key=value,..., such as loss=0.01,seed=7")
	flags.StringVar(&s.trace, "trace", "", "write what the guest's queues and the NIC tell each other to a `file`; - is standard error")
	s.networkFlags(flags)
	flags.BoolVar(&s.verbose, "v", false, "tell on standard error what the NIC refuses, and why")
	if err := flags.Parse(args); err != nil {
		return s, "", err
	}
	switch {
	case flags.NArg() > 0:
		return s, "", fmt.Errorf("vm-nic: %q is too much", flags.Arg(0))
	case socket == "":
		return s, "", errors.New("vm-nic: -socket is missing")
	case s.link != "ib" && s.link != "eth":
		return s, "", fmt.Errorf("vm-nic: link layer %q is neither ib nor eth", s.link)
	case s.network != "" && s.join != "":
		return s, "", errors.New("vm-nic: -network and -join: a network is offered or joined")
	}
	if s.link == "eth" {
		s.link, s.unaddressed = "roce", true // the guest's kernel has the addresses
	}
	return s, socket, nil
}

// vmNIC is the command vm-nic.
func vmNIC(ctx context.Context, args []string, stdout io.Writer) error {
	s, socket, err := parseVMNIC(args, stdout)
	if err != nil {
		return err
	}
	return s.withNICs(1, func(nics []*softnic.NIC, log *slog.Logger) error {
		accepting, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		watched := make(chan struct{})
		defer func() { stop(nil); <-watched }()
		go func() {
			defer close(watched)
			select {
			case <-s.ended: // the cable is out, and the next machine would find it so
				nics[0].SetPort(false)
				fmt.Fprintf(stdout, "vm-nic: %v: the port is down\n", errEnded)
				stop(fmt.Errorf("vm-nic: %w", errEnded))
			case <-accepting.Done():
			}
		}()
		return serveVMs(ctx, accepting, socket, nics[0], log, stdout)
	})
}
