package verbs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree makes a sysfs tree from paths below sys and their contents. A content that
// begins with "-> " makes a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, "sys", filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
	}
	return root
}

const (
	v0 = "class/infiniband_verbs/uverbs0/"
	i0 = "class/infiniband/mlx5_0/"
)

const emptyGID = "0000:0000:0000:0000:0000:0000:0000:0000"

// mlx5Tree is a ConnectX-7 with a RoCE port and an InfiniBand port.
func mlx5Tree() map[string]string {
	return map[string]string{
		"class/infiniband_verbs/abi_version": "6",
		v0 + "ibdev":                         "mlx5_0",
		v0 + "dev":                           "231:192",
		v0 + "abi_version":                   "1",
		v0 + "device/vendor":                 "0x15b3",
		v0 + "device/device":                 "0x1021",
		v0 + "device/numa_node":              "1",
		i0 + "node_guid":                     "9803:9b03:00aa:bbcc",
		i0 + "fw_ver":                        "28.39.1002",

		i0 + "ports/1/state":              "4: ACTIVE",
		i0 + "ports/1/link_layer":         "Ethernet",
		i0 + "ports/1/lid":                "0x0",
		i0 + "ports/1/sm_lid":             "0x0",
		i0 + "ports/1/rate":               "100 Gb/sec (4X EDR)",
		i0 + "ports/1/gids/0":             "fe80:0000:0000:0000:9a03:9bff:feaa:bbcc",
		i0 + "ports/1/gid_attrs/types/0":  "IB/RoCE v1",
		i0 + "ports/1/gid_attrs/ndevs/0":  "eth0",
		i0 + "ports/1/gids/1":             emptyGID,
		i0 + "ports/1/gid_attrs/types/1":  "RoCE v2", // a slot that is just being emptied
		i0 + "ports/1/gids/2":             "0000:0000:0000:0000:0000:ffff:0a00:0001",
		i0 + "ports/1/gid_attrs/types/2":  "RoCE v2",
		i0 + "ports/1/gids/10":            "0000:0000:0000:0000:0000:ffff:0a00:0002",
		i0 + "ports/1/gid_attrs/types/10": "RoCE v2",
		i0 + "ports/1/gid_attrs/ndevs/10": "eth0.7",

		i0 + "ports/2/state":             "2: INIT",
		i0 + "ports/2/link_layer":        "InfiniBand",
		i0 + "ports/2/lid":               "0x12",
		i0 + "ports/2/sm_lid":            "0x1",
		i0 + "ports/2/gids/0":            "fe80:0000:0000:0000:9803:9b03:00aa:bbcc",
		i0 + "ports/2/gid_attrs/types/0": "IB/RoCE v1",
	}
}

func TestDevicesMLX5(t *testing.T) {
	root := tree(t, mlx5Tree())
	devices, err := Devices(root)
	require.NoError(t, err)
	linkLocal, _ := ParseGID("fe80::9a03:9bff:feaa:bbcc")
	guid, _ := ParseGID("fe80::9803:9b03:aa:bbcc")
	one, _ := ParseGID("10.0.0.1")
	two, _ := ParseGID("10.0.0.2")
	require.Equal(t, []Device{{
		Name: "mlx5_0", UverbsName: "uverbs0", Major: 231, Minor: 192, Driver: DriverMLX5, ABI: 1,
		VendorID: 0x15b3, PartID: 0x1021, Model: "ConnectX-7", NUMANode: 1,
		NodeGUID: "9803:9b03:00aa:bbcc", Firmware: "28.39.1002",
		Ports: []Port{
			{Number: 1, State: PortActive, LinkLayer: LinkEthernet, Rate: "100 Gb/sec (4X EDR)", GIDs: []GIDEntry{
				{Index: 0, GID: linkLocal, Type: GIDTypeRoCEv1, NetDev: "eth0"},
				{Index: 2, GID: one, Type: GIDTypeRoCEv2},
				{Index: 10, GID: two, Type: GIDTypeRoCEv2, NetDev: "eth0.7"},
			}},
			{Number: 2, State: PortInit, LinkLayer: LinkInfiniBand, LID: 0x12, SMLID: 1, GIDs: []GIDEntry{
				{Index: 0, GID: guid, Type: GIDTypeInfiniBand},
			}},
		},
		root: root,
	}}, devices)
}

func TestDevicesRXE(t *testing.T) {
	// Soft-RoCE has no parent device. Its name is free, so what counts is the
	// interface it lies on; older kernels show only the name.
	for name, files := range map[string]map[string]string{
		"anything": {"class/infiniband/anything/parent": "eth1"},
		"rxe0":     {},
	} {
		files["class/infiniband_verbs/abi_version"] = "6"
		files["class/infiniband_verbs/uverbs3/ibdev"] = name
		files["class/infiniband_verbs/uverbs3/dev"] = "510:3"
		files["class/infiniband_verbs/uverbs3/abi_version"] = "2"
		files["class/infiniband/"+name+"/ports/1/state"] = "4: ACTIVE"
		files["class/infiniband/"+name+"/ports/1/link_layer"] = "Ethernet"
		devices, err := Devices(tree(t, files))
		require.NoError(t, err)
		require.Len(t, devices, 1)
		d := devices[0]
		require.Equal(t, DriverRXE, d.Driver, name)
		require.Equal(t, files["class/infiniband/anything/parent"], d.Parent)
		require.Equal(t, 2, d.ABI)
		require.Equal(t, uint32(510), d.Major)
		require.Equal(t, -1, d.NUMANode)
		require.Len(t, d.Ports, 1)
		require.Empty(t, d.Ports[0].GIDs)
	}
}

func TestDeviceDriver(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   DriverID
		model  string
	}{
		"modalias":           {map[string]string{v0 + "device/vendor": "", v0 + "device/modalias": "pci:v000015B3d0000101Dsv000015B3sd00000012bc02sc00i00"}, DriverMLX5, "ConnectX-6 Dx"},
		"older Mellanox":     {map[string]string{v0 + "device/device": "0x1003"}, DriverUnknown, ""},
		"other vendor":       {map[string]string{v0 + "device/vendor": "0x14e4"}, DriverUnknown, ""},
		"no PCI function":    {map[string]string{v0 + "device/vendor": "", v0 + "device/device": ""}, DriverUnknown, ""},
		"renamed to rxe":     {map[string]string{v0 + "device/vendor": "0x14e4", v0 + "ibdev": "rxe9"}, DriverUnknown, ""},
		"sub-function":       {map[string]string{v0 + "device/vendor": "", v0 + "device/driver": "-> ../../bus/auxiliary/drivers/mlx5_core.sf"}, DriverMLX5, ""},
		"a part to come":     {map[string]string{v0 + "device/device": "0x9999", v0 + "device/driver": "-> ../../bus/pci/drivers/mlx5_core"}, DriverMLX5, ""},
		"another module":     {map[string]string{v0 + "device/vendor": "", v0 + "ibdev": "rxe9", v0 + "device/driver": "-> ../../bus/pci/drivers/mlx4_core"}, DriverUnknown, ""},
		"nonsense in vendor": {map[string]string{v0 + "device/vendor": "x"}, DriverUnknown, ""},
	} {
		files := mlx5Tree()
		for k, v := range c.change {
			files[k] = v
		}
		files["class/infiniband/rxe9/ports/1/state"] = "4: ACTIVE"
		devices, err := Devices(tree(t, files))
		require.NoError(t, err)
		require.Len(t, devices, 1, name)
		require.Equal(t, c.want, devices[0].Driver, name)
		require.Equal(t, c.model, devices[0].Model, name)
	}
}

func TestParseModalias(t *testing.T) {
	v, p := parseModalias("pci:v000015B3d0000101Dsv0")
	require.Equal(t, [2]uint16{0x15b3, 0x101d}, [2]uint16{v, p})
	for _, s := range []string{"", "pci:v", "auxiliary:mlx5_core.sf", "pci:v000015B3d0000101", "pci:v000015B3x0000101D", "pci:v0001_5B3d0000101D", "pci:v000015B3d0000zz1D"} {
		v, p := parseModalias(s)
		require.Zero(t, v, s)
		require.Zero(t, p, s)
	}
}

// Slots come and go while they are read. None at all is not an error.
func TestDevicesGIDHoles(t *testing.T) {
	unreadable := func(names ...string) func(string) ([]byte, error) {
		return func(path string) ([]byte, error) {
			for _, n := range names {
				if strings.Contains(filepath.ToSlash(path), n) {
					return nil, &os.PathError{Op: "read", Path: path, Err: syscall.EINVAL}
				}
			}
			return os.ReadFile(path)
		}
	}
	var unknown []int
	indices := func(s *sysfs) []int {
		devices, err := s.devices()
		require.NoError(t, err)
		require.Len(t, devices, 1)
		unknown = devices[0].Ports[0].Unreadable
		var got []int
		for _, g := range devices[0].Ports[0].GIDs {
			got = append(got, g.Index)
		}
		return got
	}
	root := tree(t, mlx5Tree())
	require.Equal(t, []int{0, 2, 10}, indices(&sysfs{root, unreadable("nothing")}))
	require.Empty(t, unknown)
	require.Equal(t, []int{2, 10}, indices(&sysfs{root, unreadable("ports/1/gid_attrs/types/0")}))
	require.Equal(t, []int{0}, unknown)
	require.Equal(t, []int{0, 2, 10}, indices(&sysfs{root, unreadable("gid_attrs/ndevs")}), "a GID needs no interface")
	require.Empty(t, indices(&sysfs{root, unreadable("gid_attrs/types")}))
	require.Equal(t, []int{0, 10}, indices(&sysfs{root, unreadable("ports/1/gids/2")}))

	files := mlx5Tree()
	files[i0+"ports/1/gid_attrs/types/0"] = "RoCE v3"
	files[i0+"ports/1/gids/10"] = "nonsense"
	require.Equal(t, []int{2}, indices(newSysfs(tree(t, files))))
}

// A device that is being removed is left out; the others are listed.
func TestDevicesBeingRemoved(t *testing.T) {
	files := mlx5Tree()
	for k, v := range mlx5Tree() {
		k = strings.ReplaceAll(strings.ReplaceAll(k, "uverbs0", "uverbs1"), "mlx5_0", "mlx5_1")
		files[k] = strings.ReplaceAll(v, "mlx5_0", "mlx5_1")
	}
	files["class/infiniband_verbs/uverbs10/ibdev"] = "mlx5_1"
	files["class/infiniband_verbs/uverbs10/dev"] = "231:202"
	root := tree(t, files)
	names := func(s *sysfs) []string {
		devices, err := s.devices()
		require.NoError(t, err)
		var names []string
		for _, d := range devices {
			names = append(names, d.UverbsName)
		}
		return names
	}
	require.Equal(t, []string{"uverbs0", "uverbs1", "uverbs10"}, names(newSysfs(root)), "in numeric order")

	gone := &sysfs{root, func(path string) ([]byte, error) {
		if strings.HasSuffix(filepath.ToSlash(path), "uverbs1/ibdev") {
			return nil, &os.PathError{Op: "read", Path: path, Err: syscall.ENODEV}
		}
		return os.ReadFile(path)
	}}
	require.Equal(t, []string{"uverbs0", "uverbs10"}, names(gone))

	for _, dev := range []string{"", "231", "231:x", "x:1", "231:-1"} {
		files := mlx5Tree()
		files[v0+"dev"] = dev
		require.Empty(t, names(newSysfs(tree(t, files))), dev)
	}
}

// A device of another RDMA network namespace leaves its user-verbs node behind.
func TestDevicesElsewhere(t *testing.T) {
	root := tree(t, mlx5Tree())
	require.NoError(t, os.RemoveAll(filepath.Join(root, "sys", "class", "infiniband", "mlx5_0")))
	devices, err := Devices(root)
	require.NoError(t, err)
	require.Len(t, devices, 1)
	require.True(t, devices[0].Elsewhere)
	require.Empty(t, devices[0].Ports)
	require.Equal(t, DriverMLX5, devices[0].Driver)
}

func TestDevicesOddEntries(t *testing.T) {
	files := mlx5Tree()
	files["class/infiniband_verbs/uverbsX/ibdev"] = "x"
	files["class/infiniband_verbs/other0/ibdev"] = "x"
	files[i0+"ports/300/state"] = "4: ACTIVE" // a port number has eight bits
	files[i0+"ports/x/state"] = "4: ACTIVE"
	files[i0+"ports/3/state"] = "nonsense"
	devices, err := Devices(tree(t, files))
	require.NoError(t, err)
	require.Len(t, devices, 1)
	require.Len(t, devices[0].Ports, 3)
	require.Equal(t, Port{Number: 3}, devices[0].Ports[2])
}

func TestDevicesNone(t *testing.T) {
	devices, err := Devices(t.TempDir())
	require.NoError(t, err, "no ib_uverbs module")
	require.Empty(t, devices)

	devices, err = Devices(tree(t, map[string]string{"class/infiniband_verbs/abi_version": "6"}))
	require.NoError(t, err)
	require.Empty(t, devices)
}

func TestDevicesErrors(t *testing.T) {
	files := mlx5Tree()
	files["class/infiniband_verbs/abi_version"] = "7"
	_, err := Devices(tree(t, files))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "version 7")

	_, err = Devices(tree(t, map[string]string{"class/infiniband_verbs": "a file"}))
	require.ErrorContains(t, err, "list RDMA devices")
}

func TestDevicesOfThisSystem(t *testing.T) {
	_, err := Devices("")
	require.NoError(t, err)
}

// SYSFS_PATH stands for the system's sysfs, and for no other.
func TestSysfsPath(t *testing.T) {
	t.Setenv("SYSFS_PATH", filepath.Join(tree(t, mlx5Tree()), "sys"))
	devices, err := Devices("")
	require.NoError(t, err)
	require.Len(t, devices, 1)
	devices, err = Devices(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, devices)
}

func TestReadAttribute(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, 255, 256, 257, 5000} {
		want := strings.Repeat("x", n)
		path := filepath.Join(dir, "attribute")
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		got, err := readAttribute(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := readAttribute(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = readAttribute(dir)
	require.Error(t, err)
}
