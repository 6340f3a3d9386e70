package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/softnic"
)

const devicesUsage = `usage: farwire devices [-json] [-to HOST]

Lists the RDMA devices of this machine, as Farwire sees them, and the software
NIC. With -to it tells instead which of them a connection to HOST would use, and
why every other one is refused; FARWIRE_DEVICE and FARWIRE_SOFTNIC count as they do
for programs.

`

// lister is farwire devices, and what it asks.
type lister struct {
	root   string // of /sys and /dev; "" is the system's
	soft   func() (*softnic.Config, error)
	choose func(local, remote netip.Addr) (rdma.Choice, error)
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	route  func(remote netip.Addr) (local netip.Addr, err error)
}

// systemLister asks this machine.
func systemLister() lister {
	return lister{
		soft:   softnic.ConfigFromEnv,
		choose: rdma.Config{}.Choose,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		route: routeTo,
	}
}

// devices is the command.
func (l lister) devices(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("farwire devices", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprint(stdout, devicesUsage)
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "write JSON")
	to := flags.String("to", "", "explain the choice for a connection to `host`, a name or an address")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("devices: unexpected argument %q", flags.Arg(0))
	}
	if *to != "" {
		return l.explain(ctx, *to, *asJSON, stdout)
	}
	found, err := l.list()
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	if *asJSON {
		return writeJSON(stdout, map[string]any{"devices": found})
	}
	return printDevices(stdout, found)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
