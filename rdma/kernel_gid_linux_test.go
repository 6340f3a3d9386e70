package rdma

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// These tests change the network of the machine they run on, so they run only where
// FARWIRE_RXE says that it is one to be changed: make vm.

// gidMachine makes two interfaces, g0 with two VLANs, and a Soft-RoCE device on each.
// lo has an address that is no device's.
func gidMachine(t *testing.T) {
	if os.Getenv("FARWIRE_RXE") == "" {
		t.Skip("FARWIRE_RXE is not set")
	}
	t.Cleanup(func() {
		for _, line := range []string{"rdma link delete rxeg0", "rdma link delete rxeg1",
			"ip link delete g0", "ip link delete g1", "ip addr del 203.0.113.99/32 dev lo"} {
			_ = words(line).Run()
		}
	})
	for _, line := range []string{
		"ip addr add 203.0.113.99/32 dev lo",
		"ip link add g0 type dummy",
		"ip link add g1 type dummy",
		"ip link set g0 up",
		"ip link set g1 up",
		"rdma link add rxeg0 type rxe netdev g0",
		"rdma link add rxeg1 type rxe netdev g1",
		"ip addr add 198.51.100.4/24 dev g0",
		"ip addr add 2001:db8::4/64 dev g0 nodad",
		"ip addr add fd00:1::4/64 dev g0 nodad",
		"ip addr add 198.51.101.4/24 dev g1",
		"ip link add link g0 name g0.7 type vlan id 7",
		"ip link add link g0 name g0.8 type vlan id 8",
		"ip link set g0.7 up",
		"ip link set g0.8 up",
	} {
		shell(t, line)
	}
}

func words(line string) *exec.Cmd {
	f := strings.Fields(line)
	return exec.Command(f[0], f[1:]...)
}

func shell(t *testing.T, line string) {
	t.Helper()
	out, err := words(line).CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
}

// chosen is the choice for a connection to an address by the route that the kernel has.
func chosen(remote string) (Choice, error) {
	c, err := net.Dial("udp", net.JoinHostPort(remote, "4791"))
	if err != nil {
		return Choice{}, err
	}
	defer c.Close()
	return finder{}.find("", routeOf(c))
}

// awaitChoice waits until the choice is a device and interface, "soft" for the software
// NIC: the kernel fills its tables in its own time.
func awaitChoice(t *testing.T, remote, want string) (c Choice) {
	t.Helper()
	var err error
	eventually(t, func() bool {
		c, err = chosen(remote)
		return err == nil && strings.TrimSpace(c.Device+" "+c.NetDev) == want
	}, fmt.Sprintf("to %s: want %s", remote, want))
	return c
}

func TestKernelGIDChoice(t *testing.T) {
	gidMachine(t)
	for _, test := range []struct{ remote, want string }{
		{"198.51.100.9", "rxeg0 g0"},
		{"2001:db8::9", "rxeg0 g0"},
		{"fd00:1::9", "rxeg0 g0"},
		{"198.51.101.9", "rxeg1 g1"},
		{"fe80::9%g0", "rxeg0 g0"},
		{"fe80::9%g0.7", "rxeg0 g0.7"},
		{"fe80::9%g0.8", "rxeg0 g0.8"},
		{"fe80::9%g1", "rxeg1 g1"},
		{"198.51.101.4", Soft}, // of this machine
		{"127.0.0.1", Soft},
		{"::1", Soft},
	} {
		c := awaitChoice(t, test.remote, test.want)
		require.NotEmpty(t, c.Reason)
		if c.Device != Soft {
			require.Equal(t, uint8(1), c.Port)
			require.Equal(t, verbs.DriverRXE, c.Driver)
		}
	}

	// A route may have a source address that is no device's.
	shell(t, "ip route add 192.0.2.0/24 dev g1 src 203.0.113.99")
	c := awaitChoice(t, "192.0.2.9", Soft)
	require.Equal(t, netip.MustParseAddr("203.0.113.99"), c.Addr)
	require.Contains(t, fmt.Sprint(c.Refused), "rxeg1 port 1 has ")
	_, err := finder{}.find(Hardware, between("203.0.113.99", "192.0.2.9"))
	require.ErrorContains(t, err, "no RDMA device has 203.0.113.99")

	// An address that goes takes the choice along.
	shell(t, "ip addr del 198.51.101.4/24 dev g1")
	shell(t, "ip addr add 198.51.101.5/24 dev g1")
	c = awaitChoice(t, "198.51.101.9", "rxeg1 g1")
	require.Equal(t, netip.MustParseAddr("198.51.101.5"), c.Addr)
}

// insideEnv tells a test that it runs in a network namespace that this test made; it
// names what is asked there.
const insideEnv = "FARWIRE_GID_NAMESPACE"

// inNamespace runs this test, in a process of its own, in a network namespace.
func inNamespace(t *testing.T, namespace, ask string) string {
	t.Helper()
	tool, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("ip", "netns", "exec", namespace, tool, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+ask)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestKernelGIDNamespaces looks at devices from a network namespace that their
// interfaces are not in.
func TestKernelGIDNamespaces(t *testing.T) {
	if remote := os.Getenv(insideEnv); remote != "" {
		c, err := chosen(remote)
		require.NoError(t, err)
		fmt.Println("choice:", c.Device, c.NetDev, c.Refused)
		return
	}
	gidMachine(t)
	awaitChoice(t, "198.51.100.9", "rxeg0 g0")
	awaitChoice(t, "198.51.101.9", "rxeg1 g1")
	namespace := func(name string) {
		t.Cleanup(func() { _ = words("ip netns delete " + name).Run() })
		for _, line := range []string{
			"ip netns add " + name,
			"ip -n " + name + " link add c0 type dummy",
			"ip -n " + name + " link set c0 up",
			"ip -n " + name + " addr add 198.51.100.4/24 dev c0",
		} {
			shell(t, line)
		}
	}

	// Shared devices: their whole tables can be seen, and that the addresses are those of
	// other interfaces.
	namespace("gids1")
	require.Contains(t, inNamespace(t, "gids1", "198.51.100.9"),
		"choice: soft  [rxe0 port 1 has ")
	out := inNamespace(t, "gids1", "198.51.100.9")
	require.Regexp(t, `rxeg0 port 1 has the address on g0 \(index \d+\), which is in another network namespace`, out)
	// Even if the interface has the name of one that is here.
	shell(t, "ip -n gids1 link set c0 down")
	shell(t, "ip -n gids1 link set c0 name g0")
	shell(t, "ip -n gids1 link set g0 up")
	shell(t, "ip -n gids1 link add c1 type dummy")
	shell(t, "ip -n gids1 addr add 198.51.101.4/24 dev c1")
	shell(t, "ip -n gids1 link set c1 up")
	shell(t, "ip -n gids1 link add g1 type dummy")
	require.Regexp(t, `rxeg1 port 1 has the address on the g1 of another network namespace \(index \d+\)`,
		inNamespace(t, "gids1", "198.51.101.9"))
	shell(t, "ip netns delete gids1")

	// Devices of one namespace alone: elsewhere only their nodes are listed.
	eventually(t, func() bool { return words("rdma system set netns exclusive").Run() == nil }, "the namespace is gone")
	t.Cleanup(func() {
		eventually(t, func() bool { return words("rdma system set netns shared").Run() == nil }, "the namespace is gone")
	})
	namespace("gids2")
	out = inNamespace(t, "gids2", "198.51.100.9")
	for _, d := range []string{"rxe0", "rxeg0", "rxeg1"} {
		require.Contains(t, out, d+" belongs to another RDMA network namespace, or is being removed")
	}
}
