// Package cable joins the kernel's Soft-RoCE and a software NIC in a virtual machine, for
// tests: a pair of virtual Ethernet interfaces, the kernel's device on one of them, the
// other in a network namespace of its own, because the kernel has port 4791 of the first.
package cable

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The kernel's device, and the namespace of the other end.
const (
	Device    = "rxew"
	Namespace = "far"
)

// Network is the addresses of both ends.
type Network struct{ Kernel, Soft netip.Addr }

// Networks are those of the cable.
var Networks = map[string]Network{
	"IPv4": {netip.MustParseAddr("10.11.0.1"), netip.MustParseAddr("10.11.0.2")},
	"IPv6": {netip.MustParseAddr("fd00:11::1"), netip.MustParseAddr("fd00:11::2")},
}

// Lay lays the cable, in a machine that may be changed, until the test's end. Elsewhere
// it skips the test.
func Lay(t *testing.T) {
	t.Helper()
	if os.Getenv("FARWIRE_RXE") == "" {
		t.Skip("FARWIRE_RXE is not set: make vm")
	}
	t.Cleanup(func() {
		for _, line := range []string{"rdma link delete " + Device, "ip link delete w0", "ip netns delete " + Namespace} {
			command(t, line)
		}
	})
	for _, line := range []string{
		"ip netns add " + Namespace,
		"ip link add w0 address 02:00:00:00:0b:01 mtu 9000 type veth peer name w1 address 02:00:00:00:0b:02 mtu 9000 netns " + Namespace,
		"ip addr add 10.11.0.1/24 dev w0",
		"ip addr add fd00:11::1/64 dev w0 nodad",
		"ip link set w0 up",
		"ip -n far addr add 10.11.0.2/24 dev w1",
		"ip -n far addr add fd00:11::2/64 dev w1 nodad",
		"ip -n far link set w1 up",
		"ip -n far link set lo up",
		// The kernel asks for its peer for one second, and early questions on a new link can be lost.
		"ip neigh replace 10.11.0.2 lladdr 02:00:00:00:0b:02 dev w0 nud permanent",
		"ip neigh replace fd00:11::2 lladdr 02:00:00:00:0b:02 dev w0 nud permanent",
		"ip -n far neigh replace 10.11.0.1 lladdr 02:00:00:00:0b:01 dev w1 nud permanent",
		"ip -n far neigh replace fd00:11::1 lladdr 02:00:00:00:0b:01 dev w1 nud permanent",
		"rdma link add " + Device + " type rxe netdev w0",
	} {
		command(t, line)
	}
}

func command(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}
