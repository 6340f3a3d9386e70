package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/verbs"
)

// explanation is the choice for one address of a host.
type explanation struct {
	Remote  netip.Addr `json:"remote"`
	Local   netip.Addr `json:"local"`
	Device  string     `json:"device,omitempty"`
	Port    uint8      `json:"port,omitempty"`
	Addr    string     `json:"address,omitempty"`
	NetDev  string     `json:"netdev,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Refused []refusal  `json:"refused,omitempty"`
	Error   string     `json:"error,omitempty"` // why there is no connection
}

type refusal struct {
	Device string `json:"device"`
	Port   uint8  `json:"port,omitempty"`
	Reason string `json:"reason"`
}

// explain tells the choice for each address of a host, in the order that Dial tries them.
func (l lister) explain(ctx context.Context, host string, asJSON bool, stdout io.Writer) error {
	remotes, err := l.addresses(ctx, host)
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	var all []explanation
	for _, remote := range remotes {
		all = append(all, l.explainOne(remote))
	}
	if asJSON {
		return writeJSON(stdout, map[string]any{"host": host, "choices": all})
	}
	return printChoices(stdout, host, all)
}

// addresses returns those of a host, which may be an address itself, with a zone or not.
func (l lister) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return l.lookup(ctx, host)
}

func (l lister) explainOne(remote netip.Addr) explanation {
	out := explanation{Remote: remote.Unmap()}
	local, err := l.route(out.Remote)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Local = local
	choice, err := l.choose(local, out.Remote)
	refused := choice.Refused
	if err != nil {
		out.Error = err.Error()
		if e, ok := errors.AsType[*rdma.DeviceError](err); ok {
			refused, e.Refused = e.Refused, nil // told one by one
			out.Error = e.Error()
		}
	} else {
		out.Device, out.Port, out.NetDev, out.Reason = choice.Device, choice.Port, choice.NetDev, choice.Reason
		if choice.Addr.IsValid() {
			out.Addr = choice.Addr.String()
		}
		if err := l.tryOpen(choice); err != nil {
			out.Error = err.Error()
		}
	}
	for _, r := range refused {
		out.Refused = append(out.Refused, refusal{r.Device, r.Port, r.Reason})
	}
	return out
}

// tryOpen opens the chosen device for a moment, if it is one of the kernel's: a chosen
// device that cannot be opened is no reason for another choice.
func (l lister) tryOpen(c rdma.Choice) error {
	devices, err := verbs.Devices(l.root)
	if err != nil {
		return err
	}
	for _, d := range devices {
		for _, p := range d.Ports {
			if d.Name == c.Device && p.Number == c.Port {
				_, err := activeMTU(d, p)
				return err
			}
		}
	}
	return nil
}

// routeTo returns the local address that the kernel would use towards another. Nothing
// is sent.
func routeTo(remote netip.Addr) (netip.Addr, error) {
	const port = 9 // any
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, port)))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
