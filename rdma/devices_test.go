package rdma

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// tree makes files below a root, from lines of "path content".
func tree(t *testing.T, lines string) finder {
	root := t.TempDir()
	for line := range strings.Lines(lines) {
		path, content, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o644))
	}
	return finder{root: root}
}

const machineFiles = `
	sys/class/infiniband_verbs/abi_version 6
	sys/class/infiniband_verbs/uverbs0/ibdev mlx5_0
	sys/class/infiniband_verbs/uverbs0/dev 231:192
	sys/class/infiniband_verbs/uverbs0/abi_version 1
	sys/class/infiniband_verbs/uverbs0/device/vendor 0x15b3
	sys/class/infiniband_verbs/uverbs0/device/device 0x1021
	sys/class/infiniband/mlx5_0/node_type 1: CA
	sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE
	sys/class/infiniband/mlx5_0/ports/1/link_layer Ethernet
	sys/class/infiniband/mlx5_0/ports/1/gids/0 0000:0000:0000:0000:0000:ffff:c633:6403
	sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0 IB/RoCE v1
	sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0 eth0
	sys/class/infiniband/mlx5_0/ports/1/gids/1 0000:0000:0000:0000:0000:ffff:c633:6404
	sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1 RoCE v2
	sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1 eth0
	sys/class/infiniband/mlx5_0/ports/2/state 4: ACTIVE
	sys/class/infiniband/mlx5_0/ports/2/link_layer Ethernet
	sys/class/infiniband/mlx5_0/ports/2/gids/3 2001:0db8:0000:0000:0000:0000:0000:0001
	sys/class/infiniband/mlx5_0/ports/2/gid_attrs/types/3 RoCE v2
	sys/class/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/3 eth1
	sys/class/infiniband_verbs/uverbs1/ibdev mlx5_1
	sys/class/infiniband_verbs/uverbs1/dev 231:193
	sys/class/infiniband_verbs/uverbs1/abi_version 1
	sys/class/infiniband_verbs/uverbs1/device/vendor 0x15b3
	sys/class/infiniband_verbs/uverbs1/device/device 0x1021
	sys/class/infiniband/mlx5_1/node_type 1: CA
	sys/class/infiniband/mlx5_1/ports/1/state 4: ACTIVE
	sys/class/infiniband/mlx5_1/ports/1/link_layer InfiniBand
	sys/class/infiniband/mlx5_1/ports/1/lid 0x7
	sys/class/net/lo/device/infiniband/mlx5_1/node_type 1: CA
	sys/class/net/lo/dev_port 0
	sys/class/infiniband_verbs/uverbs2/ibdev rxe0
	sys/class/infiniband_verbs/uverbs2/dev 231:194
	sys/class/infiniband_verbs/uverbs2/abi_version 2
	sys/class/infiniband/rxe0/node_type 1: CA
	sys/class/infiniband/rxe0/parent eth0
	sys/class/infiniband/rxe0/ports/1/state 4: ACTIVE
	sys/class/infiniband/rxe0/ports/1/link_layer Ethernet
	sys/class/infiniband/rxe0/ports/1/gids/0 0000:0000:0000:0000:0000:ffff:cb00:7109
	sys/class/infiniband/rxe0/ports/1/gid_attrs/types/0 RoCE v2
	sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0 eth0
`

func TestChoiceOfDevice(t *testing.T) {
	f := tree(t, machineFiles)
	between := func(local, remote string) route { return route{local: addr(local), remote: addr(remote)} }
	for _, test := range []struct {
		name, device string
		route        route
		want         place
	}{
		{"the route's address", "", between("198.51.100.4", "198.51.100.9"), place{device: "mlx5_0", port: 1, addr: addr("198.51.100.4")}},
		{"the second port, IPv6", "", between("2001:db8::1", "2001:db8::2"), place{device: "mlx5_0", port: 2, addr: addr("2001:db8::1")}},
		{"RoCE v1 does not count", "", between("198.51.100.3", "198.51.100.9"), place{device: Soft, addr: addr("198.51.100.3")}},
		{"another driver's address", "", between("203.0.113.9", "198.51.100.9"), place{device: Soft, addr: addr("203.0.113.9")}},
		{"nobody's address", "", between("192.168.0.1", "192.168.0.2"), place{device: Soft, addr: addr("192.168.0.1")}},
		{"loopback", "", between("127.0.0.1", "127.0.0.1"), place{device: Soft}},
		{"to itself", "", between("198.51.100.4", "198.51.100.4"), place{device: Soft}},
		{"to another address of this machine", "", between("198.51.100.4", "127.0.0.1"), place{device: Soft}},
		{"software by name", Soft, between("198.51.100.4", "198.51.100.9"), place{device: Soft, addr: addr("198.51.100.4")}},
		{"hardware by name", "mlx5_0", between("198.51.100.4", "198.51.100.9"), place{device: "mlx5_0", port: 1, addr: addr("198.51.100.4")}},
		{"hardware by name for loopback", "mlx5_0", between("127.0.0.1", "127.0.0.1"), place{device: "mlx5_0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := f.find(test.device, test.route)
			require.NoError(t, err)
			require.NotEmpty(t, got.reason)
			got.reason = ""
			require.Equal(t, test.want, got)
		})
	}
}

func TestChoiceOfInfiniBand(t *testing.T) {
	// The interface that has 127.0.0.1 here is lo, which the tree makes an IPoIB one.
	f := tree(t, machineFiles)
	if interfaceOf(addr("127.0.0.1")) != "lo" {
		t.Skip("no interface lo")
	}
	got, err := f.named("mlx5_1", route{local: addr("127.0.0.1"), remote: addr("127.0.0.1")})
	require.NoError(t, err)
	require.Equal(t, place{device: "mlx5_1", port: 1, reason: "its IPoIB interface has the route's address"}, got)
	require.False(t, f.isIPoIB("lo", "mlx5_1", 2))
	require.False(t, f.isIPoIB("lo", "mlx5_0", 1))
	require.False(t, f.isIPoIB("", "mlx5_1", 1))
	require.Empty(t, interfaceOf(addr("192.0.2.1")))
}

func TestNamedDeviceErrors(t *testing.T) {
	f := tree(t, machineFiles)
	_, err := f.find("mlx5_9", route{})
	require.ErrorIs(t, err, errNoDevice)
	require.ErrorContains(t, err, "mlx5_0, mlx5_1, rxe0")
	_, err = f.find("rxe0", route{})
	require.ErrorContains(t, err, "only mlx5 is supported")
	_, err = finder{root: t.TempDir()}.find("mlx5_9", route{})
	require.ErrorContains(t, err, "there are: none")
}
