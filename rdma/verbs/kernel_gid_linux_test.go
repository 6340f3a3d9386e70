package verbs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests change the network of the machine they run on, so they run only where
// FARWIRE_RXE says that it is one to be changed: make vm.

// gidInterface makes a network interface g0 with an Ethernet VLAN g0.7, and on them a
// Soft-RoCE device rxeg.
func gidInterface(t *testing.T) {
	if os.Getenv("FARWIRE_RXE") == "" {
		t.Skip("FARWIRE_RXE is not set")
	}
	t.Cleanup(func() {
		_ = exec.Command("rdma", "link", "delete", "rxeg").Run()
		_ = exec.Command("ip", "link", "delete", "g0").Run()
	})
	shell(t, "ip link add g0 type dummy")
	shell(t, "ip link set g0 up")
	shell(t, "rdma link add rxeg type rxe netdev g0")
}

// shell runs a command line of plain words.
func shell(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
}

// gidTable reads the table of rxeg in both ways, which must agree. An entry reads
// "address interface".
func gidTable(t *testing.T) map[int]string {
	t.Helper()
	devices, err := Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		if d.Name != "rxeg" {
			continue
		}
		require.Len(t, d.Ports, 1)
		require.Equal(t, d.Ports[0].GIDs, asked(t, d))
		table := map[int]string{}
		for _, g := range d.Ports[0].GIDs {
			require.Equal(t, GIDTypeRoCEv2, g.Type)
			table[g.Index] = g.GID.String() + " " + g.NetDev
		}
		return table
	}
	require.Fail(t, "there is no rxeg")
	return nil
}

// asked is the table as the kernel's command tells it, with names for indices.
func asked(t *testing.T, d Device) []GIDEntry {
	t.Helper()
	f, err := d.Open()
	require.NoError(t, err)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	defer c.Close()
	table, err := c.GIDs(1)
	require.NoError(t, err)
	for i := range table {
		netdev, err := net.InterfaceByIndex(table[i].IfIndex)
		require.NoError(t, err)
		table[i].NetDev, table[i].IfIndex = netdev.Name, 0
	}
	return table
}

// awaitGIDs waits until the table holds these entries, for the kernel changes it in its
// own time, and returns it.
func awaitGIDs(t *testing.T, entries ...string) (table map[int]string) {
	t.Helper()
	settled := func() bool {
		p := newSysfs("").port("class/infiniband/rxeg/ports/1", 1)
		return len(p.GIDs) == len(entries)
	}
	for deadline := time.Now().Add(30 * time.Second); !settled(); {
		require.True(t, time.Now().Before(deadline), "want %v, got %v", entries, gidTable(t))
	}
	table = gidTable(t)
	var got []string
	for _, e := range table {
		got = append(got, e)
	}
	require.ElementsMatch(t, entries, got)
	return table
}

// indexOf is where the table has an entry.
func indexOf(t *testing.T, table map[int]string, entry string) int {
	t.Helper()
	for i, e := range table {
		if e == entry {
			return i
		}
	}
	require.Fail(t, "no entry "+entry)
	return 0
}

// linkLocalOf is the address that the kernel gives an interface by itself.
func linkLocalOf(t *testing.T, name string) (addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		i, err := net.InterfaceByName(name)
		require.NoError(t, err)
		addrs, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addrs {
			if ip := a.(*net.IPNet).IP; ip.IsLinkLocalUnicast() {
				addr = ip.String()
			}
		}
		return addr != ""
	}, 20*time.Second, 10*time.Millisecond)
	return addr
}

// TestKernelGIDTable gives interfaces addresses of every kind, and takes some away.
func TestKernelGIDTable(t *testing.T) {
	gidInterface(t)
	local := linkLocalOf(t, "g0")
	awaitGIDs(t, local+" g0")

	shell(t, "ip addr add 198.51.100.4/24 dev g0")
	shell(t, "ip addr add 203.0.113.4/24 dev g0")
	shell(t, "ip addr add 2001:db8::4/64 dev g0 nodad")
	shell(t, "ip addr add fd00:1::4/64 dev g0 nodad")
	shell(t, "ip link add link g0 name g0.7 type vlan id 7")
	shell(t, "ip link set g0.7 up")
	shell(t, "ip addr add 198.51.107.4/24 dev g0.7")
	require.Equal(t, local, linkLocalOf(t, "g0.7"), "the VLAN's interface has the MAC address of the one below")
	all := []string{local + " g0", "198.51.100.4 g0", "203.0.113.4 g0", "2001:db8::4 g0", "fd00:1::4 g0", local + " g0.7", "198.51.107.4 g0.7"}
	before := awaitGIDs(t, all...)

	// An address that is removed leaves a hole; the others stay where they are.
	hole := indexOf(t, before, "198.51.100.4 g0")
	shell(t, "ip addr del 198.51.100.4/24 dev g0")
	after := awaitGIDs(t, append(all[:1:1], all[2:]...)...)
	require.NotContains(t, after, hole)
	for i, e := range after {
		require.Equal(t, before[i], e)
	}

	// The next address fills it.
	shell(t, "ip addr add 192.0.2.4/24 dev g0")
	after = awaitGIDs(t, append(all[2:], all[0], "192.0.2.4 g0")...)
	require.Equal(t, hole, indexOf(t, after, "192.0.2.4 g0"))

	// An interface that goes down loses its IPv6 addresses, but for the default one.
	shell(t, "ip link set g0 down")
	awaitGIDs(t, local+" g0", "203.0.113.4 g0", "192.0.2.4 g0", "198.51.107.4 g0.7")
	devices, err := Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		if d.Name == "rxeg" {
			require.Equal(t, PortDown, d.Ports[0].State)
			require.Equal(t, "g0", d.Parent)
		}
	}
}

// TestKernelGIDTableLarge fills the table beyond what a first command has room for.
func TestKernelGIDTableLarge(t *testing.T) {
	gidInterface(t)
	var batch strings.Builder
	entries := []string{linkLocalOf(t, "g0") + " g0"}
	for i := range 300 {
		addr := fmt.Sprintf("198.18.%d.%d", i/250, 1+i%250)
		fmt.Fprintf(&batch, "addr add %s/32 dev g0\n", addr)
		entries = append(entries, addr+" g0")
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	awaitGIDs(t, entries...)
}
