package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/farwire/farwire/rdma"
)

const noDevices = `no RDMA devices: the kernel lists none in /sys/class/infiniband_verbs
  (is the module ib_uverbs loaded, and mlx5_ib for a ConnectX? In a container: is
  /sys the host's, and are the devices in its RDMA network namespace?)
  Connections use the software NIC.

`

// printDevices writes one block for each device.
func printDevices(stdout io.Writer, devices []device) error {
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	if len(devices) == 1 && devices[0].Software {
		fmt.Fprint(w, noDevices)
	}
	for i, d := range devices {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printDevice(w, d)
	}
	return w.Flush()
}

func printDevice(w io.Writer, d device) {
	fmt.Fprintln(w, d.Name)
	row := func(name string, values ...string) {
		if text := list(values...); text != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, text)
		}
	}
	driver := d.Driver
	switch {
	case d.Software:
		driver = "mlx5, of this program's own: the software NIC"
	case d.Module != "":
		driver += " (" + d.Module + ")"
	}
	row("driver", driver, d.Model, d.PCI)
	row("firmware", d.Firmware)
	row("node GUID", d.NodeGUID)
	row("on", d.Parent)
	numa := ""
	if d.NUMANode != nil {
		numa = fmt.Sprintf("NUMA node %d", *d.NUMANode)
	}
	row("node", d.Node, numa)
	row("settings", d.Settings)
	if d.Software && d.Error == "" && len(d.Ports[0].GIDs) == 0 {
		row("address", "one of its own in 127.0.0.0/8 within this machine, else that of the route")
	}
	if d.Elsewhere {
		row("error", "it belongs to another RDMA network namespace, or is being removed")
	}
	row("error", d.Error)
	for _, p := range d.Ports {
		mtu, lid := "", ""
		if p.MTU > 0 {
			mtu = fmt.Sprintf("MTU %d", p.MTU)
		}
		if p.LID != 0 {
			lid = fmt.Sprintf("LID %d, subnet manager's %d", p.LID, p.SMLID)
		}
		row(fmt.Sprintf("port %d", p.Number), p.State, p.LinkLayer, p.Rate, mtu, lid)
		for _, g := range p.GIDs {
			fmt.Fprintf(w, "    GID %d\t%s\t%v%s\n", g.Index, g.Type, g.GID, onNetDev(g.NetDev))
		}
		if n := len(p.Unreadable); n > 0 {
			row("  unreadable", fmt.Sprintf("the types of %d GIDs, at %v", n, p.Unreadable))
		}
	}
}

// printChoices writes the choice for each address of a host.
func printChoices(stdout io.Writer, host string, choices []explanation) error {
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	for i, c := range choices {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printChoice(w, host, c)
	}
	return w.Flush()
}

func printChoice(w io.Writer, host string, c explanation) {
	to := c.Remote.String()
	if host != to {
		to = fmt.Sprintf("%s (%s)", host, to)
	}
	from := ""
	if c.Local.IsValid() {
		from = fmt.Sprintf(", from %v", c.Local)
	}
	fmt.Fprintf(w, "to %s%s\n", to, from)
	if c.Device != "" {
		fmt.Fprintf(w, "  uses\t%s\n", c.where())
		fmt.Fprintf(w, "  because\t%s\n", c.Reason)
	}
	if c.Error != "" {
		fmt.Fprintf(w, "  no connection\t%s\n", c.Error)
	}
	for i, r := range c.Refused {
		title := ""
		if i == 0 {
			title = "refused"
		}
		fmt.Fprintf(w, "  %s\t%v\n", title, rdma.Refusal(r))
	}
}

// where is the chosen device in words.
func (c explanation) where() string {
	if c.Device == rdma.Soft {
		if c.Addr == "" {
			return "the software NIC, within this machine"
		}
		return "the software NIC, at " + c.Addr
	}
	text := fmt.Sprintf("%s port %d", c.Device, c.Port)
	if c.Addr != "" {
		text += ", its GID " + c.Addr
	}
	return text + onNetDev(c.NetDev)
}

func onNetDev(name string) string {
	if name == "" {
		return ""
	}
	return " on " + name
}

// list joins what is not empty.
func list(values ...string) string {
	return strings.Join(slices.DeleteFunc(values, func(v string) bool { return v == "" }), ", ")
}
