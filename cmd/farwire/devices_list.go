package main

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// device is a device as it is written.
type device struct {
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	Module    string `json:"module,omitempty"`
	Model     string `json:"model,omitempty"`
	PCI       string `json:"pci,omitempty"` // vendor:device
	Node      string `json:"node,omitempty"`
	NodeGUID  string `json:"node_guid,omitempty"`
	Firmware  string `json:"firmware,omitempty"`
	NUMANode  *int   `json:"numa_node,omitempty"`
	Parent    string `json:"parent,omitempty"` // Soft-RoCE: the network interface below
	Elsewhere bool   `json:"elsewhere,omitempty"`
	Software  bool   `json:"software,omitempty"`
	Settings  string `json:"settings,omitempty"` // of the software NIC
	Ports     []port `json:"ports,omitempty"`
	Error     string `json:"error,omitempty"` // why it cannot be opened
}

type port struct {
	Number     uint8  `json:"number"`
	State      string `json:"state"`
	LinkLayer  string `json:"link_layer"`
	Rate       string `json:"rate,omitempty"`
	MTU        int    `json:"mtu,omitempty"` // active, in bytes; 0 if the port cannot be asked
	LID        uint16 `json:"lid,omitempty"`
	SMLID      uint16 `json:"sm_lid,omitempty"`
	GIDs       []gid  `json:"gids,omitempty"`
	Unreadable []int  `json:"unreadable_gids,omitempty"`
}

type gid struct {
	Index  int       `json:"index"`
	Type   string    `json:"type"`
	GID    verbs.GID `json:"gid"`
	NetDev string    `json:"netdev,omitempty"`
}

// list returns the kernel's devices, and after them the software NIC.
func (l lister) list() ([]device, error) {
	devices, err := verbs.Devices(l.root)
	if err != nil {
		return nil, err
	}
	var found []device
	for _, d := range devices {
		found = append(found, l.describe(d))
	}
	return append(found, l.software()), nil
}

func (l lister) describe(d verbs.Device) device {
	out := device{
		Name: d.Name, Driver: d.Driver.String(), Module: d.Module, Model: d.Model,
		Node: path.Join("/dev/infiniband", d.UverbsName), NodeGUID: d.NodeGUID, Firmware: d.Firmware,
		Parent: d.Parent, Elsewhere: d.Elsewhere,
	}
	if d.VendorID != 0 {
		out.PCI = fmt.Sprintf("%04x:%04x", d.VendorID, d.PartID)
	}
	if d.NUMANode >= 0 {
		out.NUMANode = &d.NUMANode
	}
	for _, p := range d.Ports {
		described := describePort(p)
		mtu, err := activeMTU(d, p)
		if err != nil {
			out.Error = err.Error()
		}
		described.MTU = mtu
		out.Ports = append(out.Ports, described)
	}
	return out
}

func describePort(p verbs.Port) port {
	out := port{
		Number: p.Number, State: p.State.String(), LinkLayer: p.LinkLayer.String(), Rate: p.Rate,
		LID: p.LID, SMLID: p.SMLID, Unreadable: p.Unreadable,
	}
	for _, g := range p.GIDs {
		out.GIDs = append(out.GIDs, gid{g.Index, g.Type.String(), g.GID, g.NetDev})
	}
	return out
}

// activeMTU opens the device, which is also how one learns whether it can be opened.
// It is 0 for drivers that have no context to ask.
func activeMTU(d verbs.Device, p verbs.Port) (int, error) {
	file, err := d.Open()
	if err != nil {
		return 0, err
	}
	switch d.Driver {
	case verbs.DriverMLX5:
		gids := func(uint8) ([]verbs.GIDEntry, error) { return p.GIDs, nil }
		nic, err := mlx5.OpenFile(file, mlx5.Config{Port: p.Number, GIDs: gids})
		if errors.Is(err, mlx5.ErrNoGID) {
			return 0, nil // as the list of its GIDs shows
		}
		if err != nil {
			return 0, err
		}
		defer nic.Close()
		attr, err := nic.Port()
		return attr.ActiveMTU.Bytes(), err
	case verbs.DriverRXE:
		c, err := verbs.NewContext(file, d.Driver, nil, nil)
		if err != nil {
			return 0, errors.Join(err, file.Close())
		}
		defer c.Close()
		attr, err := c.QueryPort(p.Number)
		return attr.ActiveMTU.Bytes(), err
	}
	return 0, file.Close()
}

// software describes the software NIC that programs get, by one in no network.
func (l lister) software() device {
	out := device{Name: rdma.Soft, Driver: verbs.DriverMLX5.String(), Software: true, Settings: os.Getenv(softnic.EnvVar)}
	config, err := l.soft()
	if err != nil {
		out.Error = err.Error()
		return out
	}
	named := config.Addr.IsValid()
	config.Link, config.Network, config.Faults = softnic.LinkMemory, softnic.NewNetwork(), softnic.Faults{}
	config.TraceFile, config.PcapFile = "", "" // files of the programs that use it
	nic, err := softnic.New(config)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	defer nic.Close()
	p := verbs.Port{Number: 1, State: verbs.PortActive, LinkLayer: nic.LinkLayer(), LID: nic.LID()}
	if named { // otherwise they differ from route to route
		p.GIDs = nic.GIDs()
	}
	out.Ports = []port{describePort(p)}
	out.Ports[0].MTU = nic.MTU().Bytes()
	return out
}
