package rdma

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// between is the route between two addresses.
func between(local, remote string) route { return routeBetween(addr(local), addr(remote)) }

// hostOf is a host by the names of its interfaces.
type hostOf map[string][]netip.Addr

func (h hostOf) owns(a netip.Addr) bool { return h.with(a) != "" }

func (h hostOf) addrs(name string) ([]netip.Addr, bool) {
	addrs, ok := h[name]
	return addrs, ok
}

func (h hostOf) with(a netip.Addr) string {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if slices.Contains(h[name], a) {
			return name
		}
	}
	return ""
}

// machineFinder makes a machine of a description and returns its finder. The lines are:
//
//	interface NAME ADDRESS...            a network interface of this namespace
//	ipoib NAME DEVICE PORT               makes it an IPoIB one
//	device NAME MODULE VENDOR:PART       the kernel lists devices in this order; MODULE - is
//	                                     none, and so are ids that are left out
//	elsewhere NAME                       a device of another RDMA network namespace
//	port NUMBER LAYER STATE              of the last device
//	gid INDEX v1|v2|ib|? ADDRESS [NAME]  of the last port; ? makes its type unreadable
//	hole INDEX                           an empty slot
func machineFinder(t testing.TB, description string) finder {
	t.Helper()
	m := sysfsOf{t, t.TempDir()}
	m.file("class/infiniband_verbs/abi_version", "6")
	host := hostOf{"lo": {addr("127.0.0.1"), addr("::1")}}
	count, device, port := 0, "", ""
	states := []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"}
	for line := range strings.Lines(description) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "interface":
			host[f[1]] = []netip.Addr{}
			for _, a := range f[2:] {
				host[f[1]] = append(host[f[1]], addr(a))
			}
			m.file("class/net/"+f[1]+"/type", "1")
		case "ipoib":
			m.file("class/net/"+f[1]+"/type", "32")
			m.file("class/net/"+f[1]+"/dev_port", fmt.Sprint(f[3][0]-'1'))
			m.file("class/net/"+f[1]+"/device/infiniband/"+f[2]+"/node_type", "1: CA")
		case "device", "elsewhere":
			node := fmt.Sprintf("class/infiniband_verbs/uverbs%d/", count)
			m.file(node+"ibdev", f[1])
			m.file(node+"dev", fmt.Sprintf("231:%d", 192+count))
			count++
			if f[0] == "elsewhere" {
				continue
			}
			device = "class/infiniband/" + f[1] + "/"
			m.file(device+"node_type", "1: CA")
			m.dir(device + "ports")
			if f[2] != "-" {
				m.link(node+"device/driver", "../../bus/pci/drivers/"+f[2])
			}
			if len(f) > 3 {
				vendor, part, _ := strings.Cut(f[3], ":")
				m.file(node+"device/vendor", "0x"+vendor)
				m.file(node+"device/device", "0x"+part)
			}
		case "port":
			port = device + "ports/" + f[1] + "/"
			m.file(port+"link_layer", f[2])
			m.file(port+"state", fmt.Sprintf("%d: %s", slices.Index(states, f[3]), f[3]))
		case "gid":
			m.gid(port, f[1], f[2], f[3])
			if len(f) > 4 {
				m.file(port+"gid_attrs/ndevs/"+f[1], f[4])
			}
		case "hole":
			m.gid(port, f[1], "?", "::")
		default:
			require.Fail(t, "machine", line)
		}
	}
	return finder{root: m.root, host: host}
}

// sysfsOf makes files of a sysfs tree.
type sysfsOf struct {
	t    testing.TB
	root string
}

func (s sysfsOf) path(name string) string {
	path := filepath.Join(s.root, "sys", filepath.FromSlash(name))
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

func (s sysfsOf) file(name, content string) {
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(content+"\n"), 0o644))
}

func (s sysfsOf) dir(name string) {
	require.NoError(s.t, os.MkdirAll(s.path(name), 0o755))
}

func (s sysfsOf) link(name, target string) {
	require.NoError(s.t, os.Symlink(target, s.path(name)))
}

// gid makes a slot. A type that cannot be read is a directory, whose reading fails too.
func (s sysfsOf) gid(port, index, kind, a string) {
	b := verbs.GIDFrom(addr(a))
	text := make([]string, 8)
	for i := range text {
		text[i] = fmt.Sprintf("%x", b[2*i:2*i+2])
	}
	s.file(port+"gids/"+index, strings.Join(text, ":"))
	types := map[string]string{"v1": "IB/RoCE v1", "ib": "IB/RoCE v1", "v2": "RoCE v2"}
	if kind == "?" {
		s.dir(port + "gid_attrs/types/" + index)
		return
	}
	s.file(port+"gid_attrs/types/"+index, types[kind])
}

// twoCards is a ConnectX-6 Dx with two ports, each of them a device, as most servers have
// it: default GIDs first, then one of each version for every address. eth1 has no link.
const twoCards = `
	interface eth0 fe80::9a03:9bff:feaa:bbcc 198.51.100.4 2001:db8::4 fd00:1::4
	interface eth1 fe80::9a03:9bff:feaa:bbcd 198.51.101.4
	device mlx5_0 mlx5_core 15b3:101d
	port 1 Ethernet ACTIVE
	gid 0 v1 fe80::9a03:9bff:feaa:bbcc eth0
	gid 1 v2 fe80::9a03:9bff:feaa:bbcc eth0
	gid 2 v1 198.51.100.4 eth0
	gid 3 v2 198.51.100.4 eth0
	gid 4 v1 2001:db8::4 eth0
	gid 5 v2 2001:db8::4 eth0
	gid 6 v1 fd00:1::4 eth0
	gid 7 v2 fd00:1::4 eth0
	hole 8
	device mlx5_1 mlx5_core 15b3:101d
	port 1 Ethernet DOWN
	gid 0 v1 fe80::9a03:9bff:feaa:bbcd eth1
	gid 1 v2 fe80::9a03:9bff:feaa:bbcd eth1
	gid 2 v1 198.51.101.4 eth1
	gid 3 v2 198.51.101.4 eth1
`

// vlans is one port whose interface has two VLANs. They have its MAC address, and so
// the same link-local address, which only the interface tells apart.
const vlans = `
	interface eth0 fe80::9a03:9bff:feaa:bbcc 198.51.100.4
	interface eth0.7 fe80::9a03:9bff:feaa:bbcc 198.51.107.4
	interface eth0.8 fe80::9a03:9bff:feaa:bbcc
	device mlx5_0 mlx5_core 15b3:1021
	port 1 Ethernet ACTIVE
	gid 0 v1 fe80::9a03:9bff:feaa:bbcc eth0
	gid 1 v2 fe80::9a03:9bff:feaa:bbcc eth0
	gid 2 v1 198.51.100.4 eth0
	gid 3 v2 198.51.100.4 eth0
	gid 4 v1 fe80::9a03:9bff:feaa:bbcc eth0.7
	gid 5 v2 fe80::9a03:9bff:feaa:bbcc eth0.7
	gid 6 v1 198.51.107.4 eth0.7
	gid 7 v2 198.51.107.4 eth0.7
`

// bond is two ports bonded into one device (RoCE LAG): the addresses are the bond's.
const bond = `
	interface bond0 fe80::9a03:9bff:feaa:bbcc 198.51.100.4
	interface eth0
	interface eth1
	device mlx5_bond_0 mlx5_core 15b3:1019
	port 1 Ethernet ACTIVE
	gid 0 v1 fe80::9a03:9bff:feaa:bbcc bond0
	gid 1 v2 fe80::9a03:9bff:feaa:bbcc bond0
	gid 2 v1 198.51.100.4 bond0
	gid 3 v2 198.51.100.4 bond0
`

// twoPorts is one device with two ports, the second of which has no RoCE v2.
const twoPorts = `
	interface eth0 198.51.100.4
	interface eth1 198.51.101.4 198.51.101.5
	device mlx5_0 mlx5_core 15b3:1011
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.100.4 eth0
	port 2 Ethernet ACTIVE
	gid 0 v1 198.51.101.4 eth1
	gid 300 v2 198.51.101.5 eth1
`

// infiniBand is a native InfiniBand card with IPoIB, and an Ethernet one beside it. br0,
// on another link, happens to have the same link-local address as ib0.
const infiniBand = `
	interface ib0 fe80::9803:9b03:aa:bbcc 198.51.102.4
	interface eth0 198.51.100.4
	interface br0 fe80::9803:9b03:aa:bbcc
	ipoib ib0 mlx5_0 1
	device mlx5_0 mlx5_core 15b3:1021
	port 1 InfiniBand ACTIVE
	gid 0 ib fe80::9803:9b03:aa:bbcc
	device mlx5_1 mlx5_core 15b3:1021
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.100.4 eth0
`

// container is the network namespace of a container with a virtual function, whose
// interface is here, on a machine that shares all its RDMA devices: those of the physical
// function and of another container's virtual one can be seen as well. The interfaces
// of the latter are named as here, and one has this one's address.
const container = `
	interface net1 198.51.103.4
	interface eth0 172.17.0.2
	device mlx5_0 mlx5_core 15b3:101d
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.100.4 ens1f0
	device mlx5_3 mlx5_core 15b3:101e
	port 1 Ethernet ACTIVE
	gid 1 v2 172.17.0.3 eth0
	gid 2 ? 198.51.103.3
	gid 3 v2 172.17.0.2 ens1f0v1
	gid 4 v2 198.51.103.4 eth0
	device mlx5_4 mlx5_core 15b3:101e
	port 1 Ethernet ACTIVE
	hole 0
	hole 1
	gid 2 v2 198.51.103.4 net1
`

// motley is what else there is: other makers' cards, Soft-RoCE on the same interface as a
// card, a sub-function, a device of another RDMA network namespace, a card that has lost
// its ports and one with no address at all.
const motley = `
	interface eth0 198.51.100.4
	interface eth4 198.51.104.4
	interface eth5 198.51.105.4
	interface sf0 198.51.106.4
	elsewhere mlx5_8
	device rxe0 -
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.100.4 eth0
	device bnxt_re0 bnxt_en 14e4:1750
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.104.4 eth4
	device mlx5_0 mlx5_core 15b3:1021
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.100.4 eth0
	device mlx5_2 mlx5_core.sf
	port 1 Ethernet ACTIVE
	gid 1 v2 198.51.106.4 sf0
	device mlx5_5 mlx5_core 15b3:1021
	device mlx5_6 mlx5_core 15b3:1021
	port 1 Unknown DOWN
	port 2 Ethernet DOWN
	hole 0
`
