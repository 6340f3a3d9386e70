package verbs

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// softRoCE opens a Soft-RoCE device: the one FARWIRE_RXE names, as in a virtual
// machine made for this, or one of this system.
func softRoCE(t *testing.T) (Device, File) {
	t.Helper()
	want := os.Getenv("FARWIRE_RXE")
	devices, err := Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		if d.Driver != DriverRXE || len(d.Ports) == 0 || d.Ports[0].State != PortActive || want != "" && d.Name != want {
			continue
		}
		f, err := d.Open()
		require.NoError(t, err)
		return d, f
	}
	require.Empty(t, want, "no active Soft-RoCE device of this name")
	t.Skip("no active Soft-RoCE device")
	return Device{}, nil
}

// needMachine skips a test that changes the system's interfaces and devices, but
// in a virtual machine made for this.
func needMachine(t *testing.T) {
	t.Helper()
	if os.Getenv("FARWIRE_VM") == "" {
		t.Skip("this test is for a virtual machine: make vm")
	}
}

// run runs commands of iproute2, one a line.
func run(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
	}
}

// newLink makes the Soft-RoCE device rxet on an interface tv with the addresses
// 10.77.0.1 and fd00:77::1, to be removed after the test. tw is the other end of
// the wire.
func newLink(t *testing.T) Device {
	t.Helper()
	needMachine(t)
	run(t, `ip link add tv type veth peer name tw
		ip addr add 10.77.0.1/24 dev tv
		ip addr add fd00:77::1/64 dev tv nodad
		ip link set tw up
		ip link set tv up
		rdma link add rxet type rxe netdev tv`)
	t.Cleanup(func() { run(t, "ip link delete tv") }) // and the device with it
	awaitGIDs(t, "10.77.0.1", "fd00:77::1")
	d, ok := deviceNamed(t, "rxet")
	require.True(t, ok)
	return d
}

// deviceNamed looks for a device of the system. It reads no other: in an emulated
// machine the thousand slots of a GID table take their time.
func deviceNamed(t *testing.T, name string) (Device, bool) {
	t.Helper()
	s := newSysfs("")
	list, err := s.list(verbsClass, "uverbs")
	require.NoError(t, err)
	for _, uverbs := range list {
		if s.text(verbsClass+"/"+uverbs+"/ibdev") == name {
			return s.device(uverbs)
		}
	}
	return Device{}, false
}

// patience is what the kernel may take for what it does in its own time.
const patience = 30 * time.Second

// awaitGIDs waits until rxet has the GIDs of just these addresses, beside
// link-local ones.
func awaitGIDs(t *testing.T, addrs ...string) {
	t.Helper()
	var want, got []string
	for _, a := range addrs {
		g, err := ParseGID(a)
		require.NoError(t, err)
		want = append(want, g.String())
	}
	slices.Sort(want)
	const port = coreClass + "/rxet/ports/1"
	require.Eventually(t, func() bool {
		got = nil
		s := newSysfs("")
		for slot := range 16 {
			if g, ok := s.gid(port, strconv.Itoa(slot), LinkEthernet); ok && !g.GID.Addr().IsLinkLocalUnicast() {
				got = append(got, g.GID.String())
			}
		}
		slices.Sort(got)
		return slices.Equal(want, got) && s.text(port+"/state") == "4: ACTIVE"
	}, patience, 50*time.Millisecond, "%v", &got)
}
