package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// mlx5Choice is the choice of a port by its address.
func mlx5Choice(device string, port uint8, a, netdev string) Choice {
	return Choice{Device: device, Driver: verbs.DriverMLX5, Port: port, Addr: addr(a), NetDev: netdev}
}

func soft(a string) Choice {
	c := Choice{Device: Soft}
	if a != "" {
		c.Addr = addr(a)
	}
	return c
}

func TestChoiceOfDevice(t *testing.T) {
	const linkLocal = "fe80::9a03:9bff:feaa:bbcc"
	for _, test := range []struct {
		name, machine, device string
		route                 route
		want                  Choice
	}{
		{"IPv4", twoCards, "", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"IPv4 in IPv6", twoCards, "", between("::ffff:198.51.100.4", "::ffff:198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"global IPv6", twoCards, "", between("2001:db8::4", "2001:db8::9"), mlx5Choice("mlx5_0", 1, "2001:db8::4", "eth0")},
		{"unique local IPv6", twoCards, "", between("fd00:1::4", "fd00:2::9"), mlx5Choice("mlx5_0", 1, "fd00:1::4", "eth0")},
		{"link-local IPv6", twoCards, "", between(linkLocal+"%eth0", "fe80::9%eth0"), mlx5Choice("mlx5_0", 1, linkLocal, "eth0")},
		{"the second card, although it is down", twoCards, "", between("198.51.101.4", "198.51.101.9"), mlx5Choice("mlx5_1", 1, "198.51.101.4", "eth1")},
		{"nobody's address", twoCards, "", between("192.168.0.1", "192.168.0.2"), soft("192.168.0.1")},
		{"loopback", twoCards, "", between("127.0.0.1", "127.0.0.1"), soft("")},
		{"to itself", twoCards, "", between("198.51.100.4", "198.51.100.4"), soft("")},
		{"to another address of this machine", twoCards, "", between("198.51.100.4", "198.51.101.4"), soft("")},
		{"to loopback", twoCards, "", between("198.51.100.4", "127.0.0.1"), soft("")},
		{"to this machine's link-local address", twoCards, "", between("fe80::1%eth0", linkLocal+"%eth0"), soft("")},
		{"a peer with the link-local address of another interface", twoCards, "", between(linkLocal+"%eth0", "fe80::9a03:9bff:feaa:bbcd%eth0"),
			mlx5Choice("mlx5_0", 1, linkLocal, "eth0")},

		{"a VLAN", vlans, "", between("198.51.107.4", "198.51.107.9"), mlx5Choice("mlx5_0", 1, "198.51.107.4", "eth0.7")},
		{"link-local on the VLAN", vlans, "", between(linkLocal+"%eth0.7", "fe80::9%eth0.7"), mlx5Choice("mlx5_0", 1, linkLocal, "eth0.7")},
		{"link-local below the VLAN", vlans, "", between(linkLocal+"%eth0", "fe80::9%eth0"), mlx5Choice("mlx5_0", 1, linkLocal, "eth0")},
		{"a bond", bond, "", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_bond_0", 1, "198.51.100.4", "bond0")},
		{"the first port", twoPorts, "", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"RoCE v1 does not count", twoPorts, "", between("198.51.101.4", "198.51.101.9"), soft("198.51.101.4")},
		{"an index that commands cannot say", twoPorts, "", between("198.51.101.5", "198.51.101.9"), soft("198.51.101.5")},
		{"InfiniBand", infiniBand, "", between("198.51.102.4", "198.51.102.9"), Choice{Device: "mlx5_0", Driver: verbs.DriverMLX5, Port: 1}},
		{"InfiniBand, link-local", infiniBand, "", between("fe80::9803:9b03:aa:bbcc%ib0", "fe80::9%ib0"), Choice{Device: "mlx5_0", Driver: verbs.DriverMLX5, Port: 1}},
		{"beside InfiniBand", infiniBand, "", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_1", 1, "198.51.100.4", "eth0")},
		{"the container's own, not its namesake", container, "", between("198.51.103.4", "198.51.103.9"), mlx5Choice("mlx5_4", 1, "198.51.103.4", "net1")},
		{"another container's interface has the address too", container, "", between("172.17.0.2", "172.17.0.9"), soft("172.17.0.2")},
		{"the card before Soft-RoCE", motley, "", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"another maker's", motley, "", between("198.51.104.4", "198.51.104.9"), soft("198.51.104.4")},
		{"a sub-function", motley, "", between("198.51.106.4", "198.51.106.9"), mlx5Choice("mlx5_2", 1, "198.51.106.4", "sf0")},
		{"no devices", "interface eth0 198.51.100.4", "", between("198.51.100.4", "198.51.100.9"), soft("198.51.100.4")},

		{"software by name", twoCards, Soft, between("198.51.100.4", "198.51.100.9"), soft("198.51.100.4")},
		{"hardware", twoCards, Hardware, between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"hardware for this machine", twoCards, Hardware, between("198.51.100.4", "198.51.101.4"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"by name", twoCards, "mlx5_0", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"by name for loopback", twoCards, "mlx5_0", between("127.0.0.1", "127.0.0.1"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"by name for IPv6 loopback", twoCards, "mlx5_0", between("::1", "::1"), mlx5Choice("mlx5_0", 1, "2001:db8::4", "eth0")},
		{"by name although the route is another's", twoCards, "mlx5_1", between("198.51.100.4", "198.51.100.9"), mlx5Choice("mlx5_1", 1, "198.51.101.4", "eth1")},
		{"by name, of the wrong family", twoPorts, "mlx5_0", between("2001:db8::4", "2001:db8::9"), mlx5Choice("mlx5_0", 1, "198.51.100.4", "eth0")},
		{"by name, InfiniBand", infiniBand, "mlx5_0", between("198.51.100.4", "198.51.100.9"), Choice{Device: "mlx5_0", Driver: verbs.DriverMLX5, Port: 1}},
		{"by name, in the container", container, "mlx5_3", between("198.51.103.4", "198.51.103.9"), mlx5Choice("mlx5_3", 1, "172.17.0.3", "eth0")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := machineFinder(t, test.machine).find(test.device, test.route)
			require.NoError(t, err)
			require.NotEmpty(t, got.Reason)
			got.Reason, got.Refused = "", nil
			require.Equal(t, test.want, got)
		})
	}
}

// An active port goes before one that is down, wherever the kernel lists it.
func TestChoiceOfActivePort(t *testing.T) {
	f := machineFinder(t, `
		interface bond0 198.51.100.4
		device mlx5_0 mlx5_core 15b3:1021
		port 1 Ethernet DOWN
		gid 3 v2 198.51.100.4 bond0
		port 2 Ethernet ACTIVE
		gid 3 v2 198.51.100.4 bond0
		device mlx5_1 mlx5_core 15b3:1021
		port 1 Ethernet ACTIVE
		gid 3 v2 198.51.100.4 bond0`)
	for _, route := range []route{between("198.51.100.4", "198.51.100.9"), between("198.51.100.5", "198.51.100.9")} {
		c, err := f.find("mlx5_0", route)
		require.NoError(t, err)
		require.Equal(t, uint8(2), c.Port, "%v", route)
	}
	c, err := f.find("", between("198.51.100.4", "198.51.100.9"))
	require.NoError(t, err)
	require.Equal(t, []Refusal{
		{"mlx5_1", 1, "has the address too, but mlx5_0 port 2 goes first"},
		{"mlx5_0", 1, "has the address too, but mlx5_0 port 2 goes first"},
	}, c.Refused)
}

// Drivers have an order, which goes before that of the kernel and before an active port.
func TestChoiceByDriver(t *testing.T) {
	f := machineFinder(t, strings.Replace(motley, "port 1 Ethernet ACTIVE\n\tgid 1 v2 198.51.100.4 eth0\n\tdevice mlx5_2",
		"port 1 Ethernet DOWN\n\tgid 1 v2 198.51.100.4 eth0\n\tdevice mlx5_2", 1))
	route := between("198.51.100.4", "198.51.100.9")
	c, err := f.find("", route)
	require.NoError(t, err)
	require.Equal(t, "mlx5_0", c.Device)
	require.Contains(t, c.Refused, Refusal{"rxe0", 1, "has the address too, but mlx5_0 port 1 goes first"})
	c, err = f.find("rxe0", route)
	require.NoError(t, err)
	require.Equal(t, verbs.DriverRXE, c.Driver)

	// Soft-RoCE is no hardware.
	f = machineFinder(t, `
		interface eth0 198.51.100.4
		device rxe0 -
		port 1 Ethernet ACTIVE
		gid 1 v2 198.51.100.4 eth0`)
	c, err = f.find("", route)
	require.NoError(t, err)
	require.Equal(t, "rxe0", c.Device)
	const refused = "(refused: rxe0 is Soft-RoCE, and hardware is asked for)"
	_, err = f.find(Hardware, route)
	require.ErrorContains(t, err, refused)
	require.EqualError(t, f.check(Hardware), "device hardware: no port can be used "+refused)
}

func TestRouteInMachine(t *testing.T) {
	nothing := hostOf{} // interfaces that cannot be seen
	require.True(t, between("127.0.0.1", "127.0.0.2").inMachine(nothing))
	require.True(t, between("198.51.100.4", "127.0.0.1").inMachine(nothing))
	require.True(t, between("127.0.0.1", "198.51.100.4").inMachine(nothing))
	require.True(t, between("198.51.100.4", "198.51.100.4").inMachine(nothing))
	require.False(t, between("198.51.100.4", "198.51.100.5").inMachine(nothing))
	require.True(t, between("198.51.100.4", "198.51.100.5").inMachine(hostOf{"eth1": {addr("198.51.100.5")}}))
}

// What is refused says why.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, machine string
		route         route
		want          []string
	}{
		{"another address", twoCards, between("192.168.0.1", "192.168.0.2"), []string{
			"mlx5_0 port 1 has fe80::9a03:9bff:feaa:bbcc on eth0, 198.51.100.4 on eth0, 2001:db8::4 on eth0, fd00:1::4 on eth0 instead",
			"mlx5_1 port 1 has fe80::9a03:9bff:feaa:bbcd on eth1, 198.51.101.4 on eth1 instead (the port is DOWN)",
		}},
		{"RoCE v1 alone", twoPorts, between("198.51.101.4", "198.51.101.9"), []string{
			"mlx5_0 port 1 has 198.51.100.4 on eth0 instead",
			"mlx5_0 port 2 has the address as RoCE v1 (index 0)",
		}},
		{"index", twoPorts, between("198.51.101.5", "198.51.101.9"), []string{
			"mlx5_0 port 1 has 198.51.100.4 on eth0 instead",
			"mlx5_0 port 2 has the address at index 300, beyond the 255 that can be used",
		}},
		{"zone", vlans, between("fe80::9a03:9bff:feaa:bbcc%eth0.8", "fe80::9%eth0.8"), []string{
			"mlx5_0 port 1 has the address on eth0 (index 1) while the route goes by eth0.8, on eth0.7 (index 5) while the route goes by eth0.8",
		}},
		{"InfiniBand", infiniBand, between("198.51.100.5", "198.51.100.9"), []string{
			"mlx5_0 port 1 is InfiniBand, and no interface has the address",
			"mlx5_1 port 1 has 198.51.100.4 on eth0 instead",
		}},
		{"IPoIB", infiniBand, between("198.51.102.4", "198.51.100.9"), []string{
			"mlx5_1 port 1 has 198.51.100.4 on eth0 instead",
		}},
		{"namespaces", container, between("172.17.0.2", "172.17.0.9"), []string{
			"mlx5_0 port 1 has 198.51.100.4 on ens1f0 instead",
			"mlx5_3 port 1 has the address on ens1f0v1 (index 3), which is in another network namespace",
			"mlx5_4 port 1 has 198.51.103.4 on net1 instead",
		}},
		{"a namesake in another namespace", container, between("198.51.103.4", "198.51.103.9"), []string{
			"mlx5_0 port 1 has 198.51.100.4 on ens1f0 instead",
			"mlx5_3 port 1 has the address on the eth0 of another network namespace (index 4)",
		}},
		{"everything else", motley, between("198.51.105.4", "198.51.105.9"), []string{
			"mlx5_8 belongs to another RDMA network namespace, or is being removed",
			"rxe0 port 1 has 198.51.100.4 on eth0 instead",
			"bnxt_re0 has the driver bnxt_en, and what is supported is mlx5 or rxe",
			"mlx5_0 port 1 has 198.51.100.4 on eth0 instead",
			"mlx5_2 port 1 has 198.51.106.4 on sf0 instead",
			"mlx5_5 has no ports",
			"mlx5_6 port 1 has an unknown link layer",
			"mlx5_6 port 2 has no RoCE v2 GID (the port is DOWN)",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := machineFinder(t, test.machine).find("", test.route)
			require.NoError(t, err)
			got := make([]string, len(c.Refused))
			for i, r := range c.Refused {
				got[i] = r.String()
			}
			require.Equal(t, test.want, got)
		})
	}
}

// The table of a port with hundreds of addresses makes no page of an error.
func TestRefusalsAreShort(t *testing.T) {
	lines := "interface eth0\ndevice mlx5_0 mlx5_core 15b3:1021\nport 1 Ethernet ACTIVE\n"
	for i := range 200 {
		lines += fmt.Sprintf("gid %d v2 198.51.100.%d eth0\n", i, i)
	}
	lines += "gid 200 ? 198.51.100.200\n"
	_, err := machineFinder(t, lines).find(Hardware, between("192.0.2.1", "192.0.2.2"))
	require.EqualError(t, err, "device hardware: no RDMA device has 192.0.2.1, the local address of the route to 192.0.2.2 "+
		"(refused: mlx5_0 port 1 has 198.51.100.0 on eth0, 198.51.100.1 on eth0, 198.51.100.2 on eth0, 198.51.100.3 on eth0, "+
		"198.51.100.4 on eth0, 198.51.100.5 on eth0 and 194 more instead, and 1 GIDs of unknown type)")
}

// An address that was just added is not in the GID table yet, and one of many never.
func TestAddressMissingInTable(t *testing.T) {
	f := machineFinder(t, strings.Replace(bond, "198.51.100.4", "198.51.100.4 198.51.100.5", 1))
	c, err := f.find("", between("198.51.100.5", "198.51.100.9"))
	require.NoError(t, err)
	require.Equal(t, []Refusal{{"mlx5_bond_0", 1, "has not got the address in its GID table, although its interface bond0 has it"}}, c.Refused)
}

func TestNamedDeviceErrors(t *testing.T) {
	for _, test := range []struct {
		name, machine, device, want string
	}{
		{"not there", motley, "mlx5_9", "device mlx5_9: no such RDMA device; there are: mlx5_8, rxe0, bnxt_re0, mlx5_0, mlx5_2, mlx5_5, mlx5_6"},
		{"nothing there", "", "mlx5_0", "device mlx5_0: no such RDMA device; there are: none"},
		{"no hardware there", "", Hardware, "device hardware: there are no RDMA devices (is the kernel module ib_uverbs loaded, and mlx5_ib for a ConnectX?)"},
		{"another driver", motley, "bnxt_re0", "device bnxt_re0: no port can be used (refused: bnxt_re0 has the driver bnxt_en, and what is supported is mlx5 or rxe)"},
		{"elsewhere", motley, "mlx5_8", "device mlx5_8: no port can be used (refused: mlx5_8 belongs to another RDMA network namespace, or is being removed)"},
		{"no ports", motley, "mlx5_5", "device mlx5_5: no port can be used (refused: mlx5_5 has no ports)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := machineFinder(t, test.machine)
			_, err := f.find(test.device, between("198.51.100.4", "198.51.100.9"))
			require.EqualError(t, err, test.want)
			var typed *DeviceError
			require.ErrorAs(t, err, &typed)
			require.Equal(t, test.device, typed.Device)
			require.EqualError(t, f.check(test.device), test.want, "a listener says so at once")
		})
	}
}

// A device with nothing but RoCE v1 cannot be used, whoever names it.
func TestNamedDeviceOfRoCEv1(t *testing.T) {
	f := machineFinder(t, `
		interface eth0 198.51.100.4
		device mlx5_0 mlx5_core 15b3:1013
		port 1 Ethernet ACTIVE
		gid 0 v1 198.51.100.4 eth0`)
	_, err := f.find("mlx5_0", between("198.51.100.5", "198.51.100.9"))
	require.EqualError(t, err, "device mlx5_0: no port can be used (refused: mlx5_0 port 1 has no RoCE v2 GID)")
}

// A listener may be there before its device has an address.
func TestCheckOfDevice(t *testing.T) {
	f := machineFinder(t, motley)
	for _, name := range []string{"", Soft, Hardware, "mlx5_0", "mlx5_6"} {
		require.NoError(t, f.check(name), name)
	}
	_, err := f.find("mlx5_6", between("198.51.100.4", "198.51.100.9"))
	require.EqualError(t, err, "device mlx5_6: no port can be used (refused: mlx5_6 port 1 has an unknown link layer; "+
		"mlx5_6 port 2 has no RoCE v2 GID (the port is DOWN))")
}

// Where sysfs does not tell the driver, the kernel is asked.
func TestChoiceProbes(t *testing.T) {
	f := machineFinder(t, `
		interface eth0 198.51.100.4
		device renamed -
		port 1 Ethernet ACTIVE
		gid 1 v2 198.51.100.4 eth0`)
	route := between("198.51.100.4", "198.51.100.9")
	f.probe = func(d verbs.Device) (verbs.DriverID, error) {
		require.Equal(t, "renamed", d.Name)
		return verbs.DriverMLX5, nil
	}
	c, err := f.find("", route)
	require.NoError(t, err)
	require.Equal(t, "renamed", c.Device)
	require.Equal(t, verbs.DriverMLX5, c.Driver)

	f.probe = func(verbs.Device) (verbs.DriverID, error) { return verbs.DriverUnknown, nil }
	_, err = f.find("renamed", route)
	require.ErrorContains(t, err, "renamed has the driver unknown")

	f.probe = nil // there is no node to open
	_, err = f.find("renamed", route)
	require.ErrorContains(t, err, "renamed does not tell its driver: open ")
}

func TestIPoIB(t *testing.T) {
	f := machineFinder(t, infiniBand)
	require.True(t, f.isIPoIB("ib0", "mlx5_0", 1))
	require.False(t, f.isIPoIB("ib0", "mlx5_0", 2))
	require.False(t, f.isIPoIB("ib0", "mlx5_1", 1))
	require.False(t, f.isIPoIB("eth0", "mlx5_1", 1))
	f = machineFinder(t, infiniBand+"ipoib eth0 mlx5_1 1\ninterface eth0") // on Ethernet
	require.False(t, f.isIPoIB("eth0", "mlx5_1", 1))
}

// A sysfs of a kind that is not known is an error for every name.
func TestChoiceUnreadable(t *testing.T) {
	f := machineFinder(t, twoCards)
	sysfsOf{t, f.root}.file("class/infiniband_verbs/abi_version", "7")
	for _, name := range []string{"", "mlx5_0", Hardware} {
		_, err := f.find(name, between("198.51.100.4", "198.51.100.9"))
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
}

func TestThisHost(t *testing.T) {
	loopback := addr("127.0.0.1")
	name := thisHost{}.with(loopback)
	require.NotEmpty(t, name)
	addrs, ok := thisHost{}.addrs(name)
	require.True(t, ok)
	require.True(t, slices.Contains(addrs, loopback))
	require.True(t, thisHost{}.owns(loopback))

	require.Empty(t, thisHost{}.with(addr("192.0.2.1")))
	require.False(t, thisHost{}.owns(addr("192.0.2.1")))
	_, ok = thisHost{}.addrs("no such interface")
	require.False(t, ok)
}

// portsOf are the ports of a described machine, with the software NIC as configured.
func portsOf(t *testing.T, machine string, config softnic.Config) *ports {
	ps := newPorts(func() (*softnic.Config, error) { return &config, nil })
	ps.finder = machineFinder(t, machine)
	return ps
}

func TestConfigChoose(t *testing.T) {
	c := Config{ports: portsOf(t, twoCards, softnic.Config{})}
	choice, err := c.Choose(addr("198.51.100.4"), addr("198.51.100.9"))
	require.NoError(t, err)
	require.Equal(t, "mlx5_0", choice.Device)
	choice, err = c.Choose(addr("192.0.2.1"), addr("192.0.2.2"))
	require.NoError(t, err)
	require.Equal(t, Soft, choice.Device)
	require.Equal(t, addr("192.0.2.1"), choice.Addr)
	require.Len(t, choice.Refused, 2)

	c.Sends = -1
	_, err = c.Choose(addr("192.0.2.1"), addr("192.0.2.2"))
	require.ErrorContains(t, err, "Sends")

	// FARWIRE_SOFTNIC may name the software NIC's address.
	c = Config{ports: portsOf(t, twoCards, softnic.Config{Addr: addr("127.0.0.5")})}
	choice, err = c.Choose(addr("192.0.2.1"), addr("192.0.2.2"))
	require.NoError(t, err)
	require.Equal(t, addr("127.0.0.5"), choice.Addr)
}

// The software NIC cannot stand in for a card on a link-local address. The error is about
// the cards as well.
func TestNoDeviceAtAll(t *testing.T) {
	ps := portsOf(t, twoCards, softnic.Config{})
	_, err := ps.acquire("", between("fe80::1%eth0", "fe80::2%eth0"), slog.New(slog.DiscardHandler))
	require.EqualError(t, err, "no RDMA device has fe80::1%eth0, the local address of the route to fe80::2, "+
		"and the software NIC cannot be used: it cannot use a link-local address "+
		"(refused: mlx5_0 port 1 has fe80::9a03:9bff:feaa:bbcc on eth0, 198.51.100.4 on eth0, 2001:db8::4 on eth0, fd00:1::4 on eth0 instead; "+
		"mlx5_1 port 1 has fe80::9a03:9bff:feaa:bbcd on eth1, 198.51.101.4 on eth1 instead (the port is DOWN))")
	var typed *DeviceError
	require.ErrorAs(t, err, &typed)
	require.Len(t, typed.Refused, 2)

	// Nor on one that is nobody's, or taken.
	_, err = ps.acquire("", between("203.0.113.1", "203.0.113.9"), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "and the software NIC cannot be used: ")
	require.ErrorContains(t, err, "; mlx5_1 port 1 has ")
}

// A card that is chosen and cannot be opened is an error, and no reason for the software
// NIC: the peer has made its choice.
func TestChosenDeviceIsNotOpened(t *testing.T) {
	ps := portsOf(t, twoCards, softnic.Config{})
	_, err := ps.acquire("", between("198.51.100.4", "198.51.100.9"), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "device mlx5_0: open mlx5_0: ")
	require.Empty(t, ps.open)
}
