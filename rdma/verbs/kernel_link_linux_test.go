package verbs

import (
	"os"
	"os/exec"
	"strconv"
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

// newLink makes the Soft-RoCE device rxet on an interface tv with the address
// 10.77.0.1, to be removed after the test. tw is the other end of
// the wire.
func newLink(t *testing.T) Device {
	t.Helper()
	needMachine(t)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "tv").Run() }) // and the device with it
	shell(t, "ip link add tv type veth peer name tw")
	shell(t, "ip addr add 10.77.0.1/24 dev tv")
	shell(t, "ip link set tw up")
	shell(t, "ip link set tv up")
	shell(t, "rdma link add rxet type rxe netdev tv")
	awaitLink(t, "10.77.0.1")
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

// awaitLink waits until rxet is active and has a GID for an address.
func awaitLink(t *testing.T, addr string) {
	t.Helper()
	want, err := ParseGID(addr)
	require.NoError(t, err)
	s := newSysfs("")
	const port = coreClass + "/rxet/ports/1"
	require.Eventually(t, func() bool {
		for slot := range 4 {
			if g, ok := parseSysfsGID(s.text(port + "/gids/" + strconv.Itoa(slot))); ok && g == want {
				return s.text(port+"/state") == "4: ACTIVE"
			}
		}
		return false
	}, patience, 50*time.Millisecond)
}
