package mlx5_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/vmtest/plan"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// The port goes down and comes up, on Ethernet with the kernel's interface, and on InfiniBand
// as a subnet's manager has it. Who listens is told, what is posted meanwhile fails once the
// retries are used up, and the NIC stays open.
func TestKernelPortEvents(t *testing.T) {
	mlx5test.NeedKernel(t)
	name := os.Getenv(mlx5test.DeviceEnv)
	nic, err := mlx5.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, nic.Close()) }()
	mr, err := region.Alloc(nic, region.RemoteReadWrite, 4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	done := completions(t, nic)
	defer func() { require.NoError(t, done.Close()) }()
	pair := looped(t, done)
	defer func() { require.NoError(t, pair.Destroy()) }()
	events := make(chan mlx5.Event, 64)
	defer nic.Events(func(e mlx5.Event) { events <- e })()
	await := func(want verbs.EventType, state verbs.PortState) {
		t.Helper()
		for {
			if e := within(t, events, want.String()); e.Type == want {
				require.EqualValues(t, 1, e.Port)
				break
			}
		}
		require.Eventually(t, func() bool {
			port, err := nic.Port()
			require.NoError(t, err)
			return port.State == state
		}, patience, 10*time.Millisecond)
	}

	address, err := nic.Address()
	require.NoError(t, err)
	down, up := func() { takeInterfaceDown(t, name) }, func() { run(t, "/bin/sh", "-eu", plan.SetupFile) }
	if address.LinkLayer == verbs.LinkInfiniBand {
		down = func() { setLink(t, name, linkDisabled) }
		up = func() { setLink(t, name, linkPolling) }
	}
	down()
	await(verbs.EventPortError, verbs.PortDown)
	if address.LinkLayer == verbs.LinkEthernet { // InfiniBand's retries take 9 s
		requireUnreachable(t, mr, done, pair)
	}
	up()
	await(verbs.EventPortActive, verbs.PortActive)
	requireWorks(t, nic)
}

// requireUnreachable writes to where a port that is down does not reach.
func requireUnreachable(t *testing.T, mr *region.Region, done *cq.Queue, pair *qp.Pair) {
	t.Helper()
	target, err := mr.Remote(0)
	require.NoError(t, err)
	require.NoError(t, pair.Post(qp.Entry{Op: qp.Write, Local: mr.Local(0, 8), Remote: target, Signaled: true}))
	pair.Ring()
	waited := make(chan error, 1)
	go func() { waited <- done.Wait(t.Context()) }()
	require.NoError(t, within(t, waited, "the completion"))
	var c [1]cq.Completion
	_, err = done.Poll(c[:])
	require.NoError(t, err)
	require.Equal(t, verbs.RetryExceeded, c[0].Status)
}

// takeInterfaceDown takes down the interface of an Ethernet port.
func takeInterfaceDown(t *testing.T, device string) {
	t.Helper()
	interfaces, err := filepath.Glob("/sys/class/infiniband/" + device + "/device/net/*")
	require.NoError(t, err)
	require.NotEmpty(t, interfaces)
	run(t, "ip", "link", "set", filepath.Base(interfaces[0]), "down")
}

func run(t *testing.T, command ...string) {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", command, out)
}

// Physical states of a port that one can be told to go to (IBTA volume 1, 14.2.5.6).
const (
	linkPolling  = 2
	linkDisabled = 3
)

// setLink tells the port of a device to go to a physical state, by a datagram of subnet
// management that takes no hop (IBTA volume 1, 14.2.1.2), as ibportstate does.
func setLink(t *testing.T, device string, state byte) {
	t.Helper()
	f := openManagement(t, device)
	defer f.Close()
	const (
		header     = 64 // linux/rdma/ib_user_mad.h, struct ib_user_mad_hdr
		byRoute    = 0x81
		set        = 2
		portInfo   = 0x15
		data       = 64
		permissive = 0xffff
	)
	b := make([]byte, header+256)
	be := binary.BigEndian
	binary.NativeEndian.PutUint32(b[8:], 10_000) // ms until it is given up
	be.PutUint16(b[28:], permissive)             // LID
	mad := b[header:]
	mad[0], mad[1], mad[2], mad[3] = 1, byRoute, 1, set
	be.PutUint16(mad[16:], portInfo)
	be.PutUint32(mad[20:], 1) // the port's number
	be.PutUint16(mad[32:], permissive)
	be.PutUint16(mad[34:], permissive)
	mad[data+33] = state << 4
	_, err := f.Write(b)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() { _, err := f.Read(b); answered <- err }()
	require.NoError(t, within(t, answered, "the answer"))
	require.Zero(t, binary.NativeEndian.Uint32(b[4:]), "nobody answered")
	require.Zero(t, be.Uint16(mad[4:])&0x7fff, "status")
}

// openManagement opens the file for management datagrams of a device's port, for those of
// subnet management.
func openManagement(t *testing.T, device string) *os.File {
	t.Helper()
	names, err := filepath.Glob("/sys/class/infiniband_mad/umad*/ibdev")
	require.NoError(t, err)
	i := slices.IndexFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		return err == nil && strings.TrimSpace(string(b)) == device
	})
	require.NotEqual(t, -1, i, "%q", names)
	fd, err := unix.Open("/dev/infiniband/"+filepath.Base(filepath.Dir(names[i])), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	// linux/rdma/rdma_user_ioctl.h and ib_user_mad.h: IB_USER_MAD_ENABLE_PKEY, and
	// IB_USER_MAD_REGISTER_AGENT with struct ib_user_mad_reg_req. The number it answers is 0,
	// that of the first agent.
	const enablePKey, register = 0x1b03, 0xc01c1b01
	request := make([]byte, 28)
	request[21], request[22] = 0x81, 1                        // class, of queue pair 0, and its version
	for _, command := range []uintptr{enablePKey, register} { // the first one takes no argument
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), command, uintptr(unsafe.Pointer(&request[0])))
		require.Zero(t, errno, "%#x", command)
	}
	return os.NewFile(uintptr(fd), "umad")
}
