package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/farwire/farwire/internal/uapi"
)

// A Device is an RDMA device as sysfs describes it. What sysfs does not tell is
// left zero, except where said otherwise. It is plain data, valid for the moment
// it was read.
type Device struct {
	Name       string // e.g. mlx5_0
	UverbsName string // e.g. uverbs0
	Major      uint32 // of the device node
	Minor      uint32
	Driver     DriverID // DriverUnknown if sysfs does not tell; then see ProbeDriver
	Module     string   // kernel driver of the parent device, e.g. mlx5_core; "" if there is none
	ABI        int      // version of the driver's own interface
	VendorID   uint16   // PCI ids; 0 if there is no PCI function
	PartID     uint16
	Model      string // e.g. ConnectX-7
	NUMANode   int    // -1 if unknown
	NodeGUID   string
	Firmware   string
	Parent     string // Soft-RoCE: the network interface below
	Ports      []Port

	// Elsewhere is set if the user-verbs node is listed, but not the device: it
	// belongs to another RDMA network namespace, where alone it can be opened, or
	// is just being removed. Nothing is known of its ports.
	Elsewhere bool

	root string
}

// A Port is one port of a Device.
type Port struct {
	Number    uint8 // from 1
	State     PortState
	LinkLayer LinkLayer
	LID       uint16 // InfiniBand only, as is SMLID
	SMLID     uint16
	Rate      string // e.g. 100 Gb/sec (4X EDR)

	// GIDs are the used slots of the GID table, by rising index. There are gaps.
	// The table is the same in every network namespace: NetDev may name an
	// interface of another one.
	GIDs []GIDEntry

	// Unreadable are the slots that hold a GID whose type cannot be read: it is
	// being removed, or not known here.
	Unreadable []int
}

// Devices lists the RDMA devices of the system, ordered by their uverbs number.
// It reads root/sys, and Device.Open opens nodes below root/dev; root is "" for
// the running system, or what the environment variable SYSFS_PATH names in place of
// /sys, as for libibverbs. A system without the ib_uverbs module has no devices,
// which is no error. A device that disappears meanwhile is left out.
func Devices(root string) ([]Device, error) { return newSysfs(root).devices() }

// verbsClass and coreClass are where the kernel lists user-verbs nodes and RDMA
// devices.
const (
	verbsClass = "class/infiniband_verbs"
	coreClass  = "class/infiniband"
)

func (s *sysfs) devices() ([]Device, error) {
	names, err := s.list(verbsClass, "uverbs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	if v := s.number(verbsClass + "/abi_version"); v != uapi.ABIVersion {
		return nil, fmt.Errorf("list RDMA devices: user-verbs interface version %d, not %d: %w", v, uapi.ABIVersion, errors.ErrUnsupported)
	}
	var devices []Device
	for _, n := range names {
		if d, ok := s.device(n); ok {
			devices = append(devices, d)
		}
	}
	return devices, nil
}

// device reads one device. It reports false for one that is being removed: the
// files that every device has are then unreadable.
func (s *sysfs) device(uverbs string) (d Device, ok bool) {
	dir := verbsClass + "/" + uverbs
	d = Device{Name: s.text(dir + "/ibdev"), UverbsName: uverbs, NUMANode: -1, root: s.root}
	major, minor, ok := strings.Cut(s.text(dir+"/dev"), ":")
	if d.Name == "" || !ok {
		return Device{}, false
	}
	ma, err1 := strconv.ParseUint(major, 10, 32)
	mi, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return Device{}, false
	}
	d.Major, d.Minor = uint32(ma), uint32(mi)
	d.ABI = s.number(dir + "/abi_version")
	s.pci(&d, dir+"/device")

	core := coreClass + "/" + d.Name
	d.NodeGUID = s.text(core + "/node_guid")
	d.Firmware = s.text(core + "/fw_ver")
	d.Parent = s.text(core + "/parent")
	d.Driver = d.guessDriver()
	ports, err := s.list(core+"/ports", "")
	if err != nil {
		d.Elsewhere = true
		return d, true
	}
	for _, p := range ports {
		if n, err := strconv.ParseUint(p, 10, 8); err == nil {
			d.Ports = append(d.Ports, s.port(core+"/ports/"+p, uint8(n)))
		}
	}
	return d, true
}

// pci reads what the parent device tells. Soft-RoCE has no parent.
func (s *sysfs) pci(d *Device, dir string) {
	d.VendorID = uint16(s.number(dir + "/vendor"))
	d.PartID = uint16(s.number(dir + "/device"))
	if d.VendorID == 0 {
		d.VendorID, d.PartID = parseModalias(s.text(dir + "/modalias"))
	}
	if d.VendorID == vendorMellanox {
		d.Model = mlx5Parts[d.PartID]
	}
	d.Module = s.link(dir + "/driver")
	if t := s.text(dir + "/numa_node"); t != "" {
		d.NUMANode = s.number(dir + "/numa_node")
	}
}

// guessDriver names the driver where the PCI ids or Soft-RoCE's marks tell. A
// device name is free to choose, so it decides only where there is no parent.
func (d *Device) guessDriver() DriverID {
	switch {
	case d.Model != "", d.Module == "mlx5_core", strings.HasPrefix(d.Module, "mlx5_core."):
		return DriverMLX5 // a sub-function has no PCI ids; its driver is mlx5_core.sf
	case d.VendorID != 0, d.Module != "":
		return DriverUnknown
	case d.Parent != "" || strings.HasPrefix(d.Name, "rxe"):
		return DriverRXE
	}
	return DriverUnknown
}

// parseModalias takes the ids out of, e.g., pci:v000015B3d0000101Dsv….
func parseModalias(s string) (vendor, part uint16) {
	rest, ok := strings.CutPrefix(s, "pci:v")
	if !ok || len(rest) < 17 || rest[8] != 'd' {
		return 0, 0
	}
	v, err1 := strconv.ParseUint(rest[:8], 16, 16)
	p, err2 := strconv.ParseUint(rest[9:17], 16, 16)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return uint16(v), uint16(p)
}

func (s *sysfs) port(dir string, n uint8) Port {
	state, _, _ := strings.Cut(s.text(dir+"/state"), ":")
	st, _ := strconv.ParseUint(state, 10, 8)
	p := Port{
		Number: n, State: PortState(st), LinkLayer: ParseLinkLayer(s.text(dir + "/link_layer")),
		LID: uint16(s.number(dir + "/lid")), SMLID: uint16(s.number(dir + "/sm_lid")),
		Rate: s.text(dir + "/rate"),
	}
	slots, err := s.list(dir+"/gids", "")
	if err != nil {
		return p
	}
	for _, slot := range slots {
		g, ok := parseSysfsGID(s.text(dir + "/gids/" + slot))
		if !ok || g.IsZero() {
			continue // most slots are empty
		}
		e := GIDEntry{GID: g, NetDev: s.text(dir + "/gid_attrs/ndevs/" + slot)}
		e.Index, _ = strconv.Atoi(slot) // list returns numbers only
		e.Type, ok = gidTypeOf(s.text(dir+"/gid_attrs/types/"+slot), p.LinkLayer)
		if !ok {
			p.Unreadable = append(p.Unreadable, e.Index)
			continue
		}
		p.GIDs = append(p.GIDs, e)
	}
	return p
}

// gidTypeOf parses the type of a slot, which is unreadable if the slot is empty.
func gidTypeOf(text string, link LinkLayer) (GIDType, bool) {
	switch {
	case text == "RoCE v2":
		return GIDTypeRoCEv2, true
	case text == "IB/RoCE v1" && link == LinkEthernet:
		return GIDTypeRoCEv1, true
	case text == "IB/RoCE v1":
		return GIDTypeInfiniBand, true
	}
	return 0, false
}

func rootDir(root string) string {
	if root == "" {
		return string(filepath.Separator)
	}
	return root
}
