package interpose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// makeSysfs makes a folder with the part of sysfs that describes the NICs, as
// libibverbs, libmlx5 and the tools read it.
func makeSysfs(nics []*softnic.NIC) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "farwire-sysfs-"); err != nil {
		return "", err
	}
	err = writeFile(dir, "class/infiniband_verbs/abi_version", uapi.ABIVersion)
	for i, nic := range nics {
		err = errors.Join(err, writeDevice(dir, i, nic))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// writeDevice writes what is known of a NIC: a ConnectX-5 on the PCI bus.
func writeDevice(dir string, i int, nic *softnic.NIC) error {
	var errs []error
	put := func(name string, value any) { errs = append(errs, writeFile(dir, name, value)) }
	node := fmt.Sprintf("class/infiniband_verbs/uverbs%d/", i)
	put(node+"ibdev", nic.Name())
	put(node+"dev", fmt.Sprintf("231:%d", 192+i))
	put(node+"abi_version", 1)
	device := "class/infiniband/" + nic.Name() + "/"
	gids := nic.GIDs()
	guid := words(gids[0].GID[8:]) // the first is the default one, made of the GUID
	put(device+"node_type", "1: CA")
	put(device+"node_guid", guid)
	put(device+"sys_image_guid", guid)
	put(device+"node_desc", "Farwire software NIC")
	put(device+"fw_ver", "16.35.4000")
	put(device+"hca_type", "MT4119")
	put(device+"hw_rev", "0")
	put(device+"board_id", "FW_0000000001")
	put(device+"device/modalias", "pci:v000015B3d00001017sv000015B3sd00000016bc02sc00i00")
	put(device+"device/vendor", "0x15b3")
	put(device+"device/device", "0x1017")
	put(device+"device/numa_node", -1)
	put(device+"device/local_cpus", "1")
	errs = append(errs, os.Symlink("../../infiniband/"+nic.Name()+"/device", filepath.Join(dir, node, "device")))
	port := device + "ports/1/"
	put(port+"link_layer", layerName(nic.LinkLayer()))
	put(port+"state", "4: ACTIVE")
	put(port+"phys_state", "5: LinkUp")
	put(port+"rate", "100 Gb/sec (4X EDR)")
	put(port+"lid", fmt.Sprintf("%#x", nic.LID()))
	put(port+"sm_lid", "0x1")
	put(port+"pkeys/0", "0xffff")
	for i := len(gids); i < softnic.GIDSlots; i++ {
		put(port+fmt.Sprintf("gids/%d", i), words(make([]byte, 16)))
	}
	for _, g := range gids {
		put(port+fmt.Sprintf("gids/%d", g.Index), words(g.GID[:]))
		put(port+fmt.Sprintf("gid_attrs/types/%d", g.Index), typeName(g.Type))
	}
	return errors.Join(errs...)
}

// words is a GUID or a GID as sysfs writes it.
func words(b []byte) string {
	s := ""
	for i := 0; i < len(b); i += 2 {
		s += fmt.Sprintf(":%04x", binary.BigEndian.Uint16(b[i:]))
	}
	return s[1:]
}

func layerName(l verbs.LinkLayer) string {
	if l == verbs.LinkInfiniBand {
		return "InfiniBand"
	}
	return "Ethernet"
}

func typeName(t verbs.GIDType) string {
	if t == verbs.GIDTypeRoCEv2 {
		return "RoCE v2"
	}
	return "IB/RoCE v1"
}

func writeFile(dir, name string, value any) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendln(nil, value), 0o644)
}
