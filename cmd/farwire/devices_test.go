package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/softnic"
)

// cards is the sysfs of a RoCE card, an InfiniBand card, another maker's, Soft-RoCE and
// a card of another RDMA network namespace: paths below sys, and contents.
const cards = `
	class/infiniband_verbs/abi_version 6
	class/infiniband_verbs/uverbs0/ibdev mlx5_0
	class/infiniband_verbs/uverbs0/dev 231:192
	class/infiniband_verbs/uverbs0/device/vendor 0x15b3
	class/infiniband_verbs/uverbs0/device/device 0x101d
	class/infiniband_verbs/uverbs0/device/numa_node 1
	class/infiniband/mlx5_0/node_guid 9803:9b03:00aa:bbcc
	class/infiniband/mlx5_0/fw_ver 22.39.1002
	class/infiniband/mlx5_0/ports/1/state 4: ACTIVE
	class/infiniband/mlx5_0/ports/1/link_layer Ethernet
	class/infiniband/mlx5_0/ports/1/rate 100 Gb/sec (4X EDR)
	class/infiniband/mlx5_0/ports/1/gids/0 fe80:0000:0000:0000:9a03:9bff:feaa:bbcc
	class/infiniband/mlx5_0/ports/1/gid_attrs/types/0 IB/RoCE v1
	class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0 eth0
	class/infiniband/mlx5_0/ports/1/gids/3 0000:0000:0000:0000:0000:ffff:c633:6404
	class/infiniband/mlx5_0/ports/1/gid_attrs/types/3 RoCE v2
	class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3 eth0
	class/infiniband/mlx5_0/ports/1/gids/4 0000:0000:0000:0000:0000:ffff:c633:6405
	class/infiniband_verbs/uverbs1/ibdev mlx5_1
	class/infiniband_verbs/uverbs1/dev 231:193
	class/infiniband_verbs/uverbs1/device/vendor 0x15b3
	class/infiniband_verbs/uverbs1/device/device 0x1021
	class/infiniband/mlx5_1/ports/1/state 2: INIT
	class/infiniband/mlx5_1/ports/1/link_layer InfiniBand
	class/infiniband/mlx5_1/ports/1/lid 0x7
	class/infiniband/mlx5_1/ports/1/sm_lid 0x1
	class/infiniband_verbs/uverbs2/ibdev rxe0
	class/infiniband_verbs/uverbs2/dev 231:194
	class/infiniband/rxe0/parent eth1
	class/infiniband/rxe0/ports/1/state 1: DOWN
	class/infiniband/rxe0/ports/1/link_layer Ethernet
	class/infiniband_verbs/uverbs3/ibdev bnxt_re0
	class/infiniband_verbs/uverbs3/dev 231:195
	class/infiniband_verbs/uverbs3/device/vendor 0x14e4
	class/infiniband_verbs/uverbs3/device/device 0x1750
	class/infiniband/bnxt_re0/ports/1/state 4: ACTIVE
	class/infiniband_verbs/uverbs4/ibdev mlx5_8
	class/infiniband_verbs/uverbs4/dev 231:196
`

// sysfs makes a root from lines of "path content".
func sysfs(t *testing.T, lines string) string {
	root := t.TempDir()
	for line := range strings.Lines(lines) {
		name, content, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		name = filepath.Join(root, "sys", filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content+"\n"), 0o644))
	}
	return root
}

func plainSoft() (*softnic.Config, error) { return &softnic.Config{}, nil }

// output runs farwire devices.
func (l lister) output(t *testing.T, args ...string) string {
	var out bytes.Buffer
	require.NoError(t, l.devices(t.Context(), args, &out))
	return out.String()
}

// cannotOpen is how the error of a device begins that has no node.
var cannotOpen = regexp.MustCompile("(?m)(error +)(open|device) .*$")

func TestDevicesListed(t *testing.T) {
	got := lister{root: sysfs(t, cards), soft: plainSoft}.output(t)
	require.Equal(t, `mlx5_0
  driver        mlx5, ConnectX-6 Dx, 15b3:101d
  firmware      22.39.1002
  node GUID     9803:9b03:00aa:bbcc
  node          /dev/infiniband/uverbs0, NUMA node 1
  error         cannot open
  port 1        ACTIVE, Ethernet, 100 Gb/sec (4X EDR)
    GID 0       RoCE v1  fe80::9a03:9bff:feaa:bbcc on eth0
    GID 3       RoCE v2  198.51.100.4 on eth0
    unreadable  the types of 1 GIDs, at [4]

mlx5_1
  driver  mlx5, ConnectX-7, 15b3:1021
  node    /dev/infiniband/uverbs1
  error   cannot open
  port 1  INIT, InfiniBand, LID 7, subnet manager's 1

rxe0
  driver  rxe
  on      eth1
  node    /dev/infiniband/uverbs2
  error   cannot open
  port 1  DOWN, Ethernet

bnxt_re0
  driver  unknown, 14e4:1750
  node    /dev/infiniband/uverbs3
  error   cannot open
  port 1  ACTIVE, Unspecified

mlx5_8
  driver  unknown
  node    /dev/infiniband/uverbs4
  error   it belongs to another RDMA network namespace, or is being removed

soft
  driver   mlx5, of this program's own: the software NIC
  address  one of its own in 127.0.0.0/8 within this machine, else that of the route
  port 1   ACTIVE, Ethernet, MTU 4096
`, cannotOpen.ReplaceAllString(got, "${1}cannot open"))
}

func TestDevicesJSON(t *testing.T) {
	var got struct{ Devices []device }
	text := lister{root: sysfs(t, cards), soft: plainSoft}.output(t, "-json")
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Len(t, got.Devices, 6)
	d := got.Devices[0]
	require.Equal(t, "mlx5_0", d.Name)
	require.Equal(t, 1, *d.NUMANode)
	require.Equal(t, 3, d.Ports[0].GIDs[1].Index)
	require.Equal(t, "198.51.100.4", d.Ports[0].GIDs[1].GID.String())
	require.Contains(t, text, `"type": "RoCE v2",`)
	require.NotEmpty(t, d.Error)
	require.Nil(t, got.Devices[1].NUMANode)
	require.True(t, got.Devices[4].Elsewhere)
	require.True(t, got.Devices[5].Software)
}

func TestNoDevices(t *testing.T) {
	l := lister{root: t.TempDir(), soft: func() (*softnic.Config, error) {
		return &softnic.Config{Addr: netip.MustParseAddr("127.0.0.5"), RoCEv2Only: true}, nil
	}}
	got := l.output(t)
	require.Contains(t, got, "no RDMA devices: ")
	require.Contains(t, got, "is the module ib_uverbs loaded")
	require.Contains(t, got, "    GID 1  RoCE v2  127.0.0.5\n")
	require.NotContains(t, got, "of its own in")

	l.soft = func() (*softnic.Config, error) { return nil, errors.New("FARWIRE_SOFTNIC: it rains") }
	require.Contains(t, l.output(t), "  error   FARWIRE_SOFTNIC: it rains\n")
	l.soft = func() (*softnic.Config, error) { return &softnic.Config{MTU: 9}, nil }
	require.Contains(t, l.output(t), "  error   ")
}

// Listing makes no files of those that the programs' NICs write, and opens none.
func TestDevicesLeaveFilesAlone(t *testing.T) {
	dir := t.TempDir()
	l := lister{root: t.TempDir(), soft: func() (*softnic.Config, error) {
		return &softnic.Config{TraceFile: filepath.Join(dir, "trace"), PcapFile: filepath.Join(dir, "pcap")}, nil
	}}
	require.NotContains(t, l.output(t), "error")
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, made)
}

func TestDevicesErrors(t *testing.T) {
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"devices", "-h"}, &out), flag.ErrHelp)
	require.Contains(t, out.String(), "usage: farwire devices")
	require.ErrorContains(t, run(t.Context(), []string{"devices", "mlx5_0"}, io.Discard), `unexpected argument "mlx5_0"`)
	l := lister{root: sysfs(t, "class/infiniband_verbs/abi_version 7"), soft: plainSoft}
	require.ErrorContains(t, l.devices(t.Context(), nil, io.Discard), "devices: list RDMA devices: ")
	l.lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	require.ErrorContains(t, l.devices(t.Context(), []string{"-to", "db1"}, io.Discard), "devices: no such host")
}

// explainer is a machine with a choice for every peer that there is to tell of.
func explainer(t *testing.T) lister {
	a := netip.MustParseAddr
	refused := []rdma.Refusal{{Device: "rxe0", Reason: "has the driver rxe"}, {Device: "mlx5_1", Port: 2, Reason: "is InfiniBand"}}
	return lister{
		root: t.TempDir(), // there is nothing to open
		lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{a("::ffff:198.51.100.9"), a("2001:db8::9"), a("192.0.2.9"), a("192.0.2.10"), a("192.0.2.11"), a("192.0.2.12")}, nil
		},
		route: func(remote netip.Addr) (netip.Addr, error) {
			if remote == a("192.0.2.12") {
				return netip.Addr{}, errors.New("network is unreachable")
			}
			return a("198.51.100.4"), nil
		},
		choose: func(local, remote netip.Addr) (rdma.Choice, error) {
			switch remote.String() {
			case "198.51.100.9":
				return rdma.Choice{Device: "mlx5_0", Port: 1, Addr: local, NetDev: "eth0", Reason: "its GID is the route's address", Refused: refused}, nil
			case "2001:db8::9":
				return rdma.Choice{Device: "mlx5_1", Port: 2, Reason: "its IPoIB interface has the route's address"}, nil
			case "192.0.2.9":
				return rdma.Choice{Device: rdma.Soft, Reason: "both ends are on this machine"}, nil
			case "192.0.2.10":
				return rdma.Choice{Device: rdma.Soft, Addr: local, Reason: "no RDMA device has it", Refused: refused[:1]}, nil
			}
			return rdma.Choice{}, &rdma.DeviceError{Device: "mlx5_1", Err: errors.New("no port can be used"), Refused: refused}
		},
	}
}

func TestChoiceExplained(t *testing.T) {
	require.Equal(t, `to db1 (198.51.100.9), from 198.51.100.4
  uses     mlx5_0 port 1, its GID 198.51.100.4 on eth0
  because  its GID is the route's address
  refused  rxe0 has the driver rxe
           mlx5_1 port 2 is InfiniBand

to db1 (2001:db8::9), from 198.51.100.4
  uses     mlx5_1 port 2
  because  its IPoIB interface has the route's address

to db1 (192.0.2.9), from 198.51.100.4
  uses     the software NIC, within this machine
  because  both ends are on this machine

to db1 (192.0.2.10), from 198.51.100.4
  uses     the software NIC, at 198.51.100.4
  because  no RDMA device has it
  refused  rxe0 has the driver rxe

to db1 (192.0.2.11), from 198.51.100.4
  no connection  device mlx5_1: no port can be used
  refused        rxe0 has the driver rxe
                 mlx5_1 port 2 is InfiniBand

to db1 (192.0.2.12)
  no connection  network is unreachable
`, explainer(t).output(t, "-to", "db1"))

	var got struct {
		Host    string
		Choices []explanation
	}
	require.NoError(t, json.Unmarshal([]byte(explainer(t).output(t, "-json", "-to", "db1")), &got))
	require.Equal(t, "db1", got.Host)
	require.Len(t, got.Choices, 6)
	require.Equal(t, explanation{
		Remote: netip.MustParseAddr("198.51.100.9"), Local: netip.MustParseAddr("198.51.100.4"),
		Device: "mlx5_0", Port: 1, Addr: "198.51.100.4", NetDev: "eth0", Reason: "its GID is the route's address",
		Refused: []refusal{{"rxe0", 0, "has the driver rxe"}, {"mlx5_1", 2, "is InfiniBand"}},
	}, got.Choices[0])
}

// A device that is chosen and cannot be opened is no other choice, but told.
func TestExplainUnopened(t *testing.T) {
	l := explainer(t)
	l.root = sysfs(t, cards)
	require.Regexp(t, `(?m)^  because +its GID is the route's address\n  no connection  (open|device) `, l.output(t, "-to", "198.51.100.9"))
}

// An address is not looked up, and its zone is kept.
func TestExplainAnAddress(t *testing.T) {
	got := systemLister().output(t, "-to", "127.0.0.1")
	require.Contains(t, got, "to 127.0.0.1, from 127.0.0.1\n")
	if os.Getenv(rdma.DeviceEnv) == "" {
		require.Contains(t, got, "both ends are on this machine")
	}
	got = systemLister().output(t, "-to", "fe80::9%no-such-interface")
	require.Contains(t, got, "to fe80::9%no-such-interface\n  no connection  ")
}

// The tool, as a program on the software NICs of farwire run, lists them like cards, which
// it opens.
func TestDevicesOfRun(t *testing.T) {
	needHost(t)
	tool, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(tool, "run", "-n", "2", "--", "env", asTool+"=1", tool, "devices")
	cmd.Env = append(os.Environ(), asTool+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"mlx5_0\n", "mlx5_1\n", "driver     mlx5, ConnectX-5, 15b3:1017\n", "MTU 4096\n    GID 0", "\nsoft\n"} {
		require.Contains(t, string(out), want)
	}
	require.NotContains(t, string(out), "error")
}
