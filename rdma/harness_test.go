package rdma

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// machine is a set of devices of its own, as another process would have. When the test
// ends it must have closed them all, and no queue pair may ever have met a peer without
// a receive posted.
type machine struct {
	*ports
	mu   sync.Mutex
	nics []*softnic.NIC

	strangers bool // peers that keep to no protocol may find no receive
}

// machines are those of the tests that run, by their ports.
var machines sync.Map

func machineOf(c Config) *machine {
	m, _ := machines.Load(c.ports)
	return m.(*machine)
}

func newMachine(t testing.TB, config softnic.Config) *machine {
	m := &machine{}
	m.ports = newPorts(func() (*softnic.Config, error) {
		c := config
		return &c, nil
	})
	m.opened = func(p *port) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if p.soft != nil {
			m.nics = append(m.nics, p.soft)
		}
	}
	machines.Store(m.ports, m)
	t.Cleanup(func() {
		machines.Delete(m.ports)
		m.settle(t)
		for _, nic := range m.nics {
			c := nic.Counters()
			require.True(t, m.strangers || c.RNRNaksSent == 0, "a message found no receive")
			require.Zero(t, c.Overruns, "a completion queue overran")
			require.Zero(t, c.BadDoorbells, "a doorbell made no sense")
			require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.EventFiles, "objects left: %+v", c)
		}
	})
	return m
}

// settle waits for connections that are being closed in the background.
func (m *machine) settle(t testing.TB) {
	eventually(t, func() bool {
		m.ports.mu.Lock()
		defer m.ports.mu.Unlock()
		return len(m.open) == 0
	}, "devices are still open")
}

// rest waits until nobody but a listener has a device open, and no connection is left.
func (m *machine) rest(t testing.TB) {
	eventually(t, func() bool {
		m.ports.mu.Lock()
		defer m.ports.mu.Unlock()
		for _, p := range m.open {
			p.mu.Lock()
			pairs := len(p.pairs)
			p.mu.Unlock()
			if p.users > 1 || pairs > 0 {
				return false
			}
		}
		return true
	}, "connections are left")
}

// counters are those of the NIC opened last.
func (m *machine) counters() softnic.Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nics[len(m.nics)-1].Counters()
}

func (m *machine) nic() *softnic.NIC {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nics[len(m.nics)-1]
}

// link is two ends that can reach each other: one machine twice, or two machines.
type link struct {
	dialer, listener Config
}

// near is the dialer's machine and far the listener's.
func (l link) near() *machine { return machineOf(l.dialer) }
func (l link) far() *machine  { return machineOf(l.listener) }

// counters adds up those of both ends' NICs that faults and retries leave traces in.
func (l link) counters() (sum softnic.Counters) {
	for _, m := range []*machine{l.near(), l.far()} {
		c := m.counters()
		sum.Retransmits += c.Retransmits
		sum.Timeouts += c.Timeouts
		sum.Duplicates += c.Duplicates
		sum.OutOfSequence += c.OutOfSequence
		sum.DropICRC += c.DropICRC
		sum.LateCompletions += c.LateCompletions
	}
	return sum
}

// loopback is one NIC that talks to itself.
func loopback(t testing.TB, c softnic.Config) link {
	m := newMachine(t, c)
	return link{Config{ports: m.ports}, Config{ports: m.ports}}
}

// inMemory is two NICs of one process.
func inMemory(t testing.TB, c softnic.Config) link {
	c.Network, c.Link = softnic.NewNetwork(), softnic.LinkMemory
	return link{Config{ports: newMachine(t, c).ports}, Config{ports: newMachine(t, c).ports}}
}

// overUDP is two NICs whose packets cross UDP sockets.
func overUDP(t testing.TB, c softnic.Config) link {
	c.NoSharedMemory = true
	return apart(t, c)
}

// overShared is two NICs whose packets cross shared memory, as those of two processes.
func overShared(t testing.TB, c softnic.Config) link {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has memory that can be shared so")
	}
	return apart(t, c)
}

// apart is two NICs that know nothing of each other.
func apart(t testing.TB, c softnic.Config) link {
	c.Link = softnic.LinkUDP
	a, b := c, c
	a.Network, b.Network = softnic.NewNetwork(), softnic.NewNetwork()
	return link{Config{ports: newMachine(t, a).ports}, Config{ports: newMachine(t, b).ports}}
}

// These name a device of the kernel's that tests may use, where there is one: of Soft-RoCE
// (make vm), or of the mlx5 driver (make vm-mlx5).
const (
	rxeEnv  = "FARWIRE_RXE"
	mlx5Env = "FARWIRE_MLX5"
)

// kernelDevice is the name of that device; empty if there is none.
func kernelDevice() string { return cmp.Or(os.Getenv(rxeEnv), os.Getenv(mlx5Env)) }

// overKernel is a device of the kernel's that talks to itself, opened once for each end. No
// message may meet an end without a receive, as far as the device counts that, and nothing
// be left in the kernel.
func overKernel(t testing.TB, _ softnic.Config) link {
	name := kernelDevice()
	firstUse.Do(func() {
		registerOnce(t, name)
		unused = kernelResources(t, name)
		require.Contains(t, unused, " qp ")
	})
	notReady := rnrCount(t, name)
	t.Cleanup(func() {
		require.Equal(t, notReady, rnrCount(t, name), "a message found no receive")
		eventually(t, func() bool { return kernelResources(t, name) == unused }, "the kernel has other objects of the device than before")
	})
	near, far := newMachine(t, softnic.Config{}), newMachine(t, softnic.Config{})
	c := Config{Device: name, HandshakeTimeout: time.Minute} // it may be an emulated machine's
	l := link{c, c}
	l.dialer.ports, l.listener.ports = near.ports, far.ports
	return l
}

// unused is what the kernel has of a device that nobody uses. What a test dials in the
// background may still come and go when the next one begins, so it is asked for once.
var (
	firstUse sync.Once
	unused   string
)

// registerOnce registers memory: newer kernels' mlx5 driver makes objects of its own when
// somebody does so for the first time, and keeps them.
func registerOnce(t testing.TB, name string) {
	if os.Getenv(mlx5Env) == "" {
		return
	}
	nic, err := mlx5.Open(name)
	require.NoError(t, err)
	mr, err := region.Alloc(nic, region.Local, 1)
	require.NoError(t, err)
	require.NoError(t, mr.Close())
	require.NoError(t, nic.Close())
}

// rnrCount is how often a peer's queue pair told a Soft-RoCE device that it has no receive.
// Other devices are not asked.
func rnrCount(t testing.TB, device string) string {
	if device != os.Getenv(rxeEnv) {
		return ""
	}
	count, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/rcvd_rnr_err")
	require.NoError(t, err)
	return string(count)
}

// kernelResources is what the kernel counts of the objects of a device, behind its name:
// before it is a number, another one for each time that the device came.
func kernelResources(t testing.TB, device string) string {
	out, err := exec.Command("rdma", "resource", "show", device).CombinedOutput()
	assert.NoError(t, err, "%s", out)
	_, counts, _ := strings.Cut(string(out), device)
	return counts
}

// anyLink is a link for tests that do not care: a device of the kernel's if there is one.
func anyLink(t testing.TB) link {
	if kernelDevice() != "" {
		return overKernel(t, softnic.Config{})
	}
	return inMemory(t, softnic.Config{})
}

// inPackets is loopback whose messages go as packets.
func inPackets(t testing.TB, c softnic.Config) link {
	c.Packets = true
	return loopback(t, c)
}

// links are the ways to join two software NICs, by name.
var links = map[string]func(testing.TB, softnic.Config) link{
	"loopback": inPackets, "memory": inMemory, "udp": overUDP, "shm": overShared,
}

// eachLink runs a test over every kind of link, or, where there is a device of the
// kernel's, over that alone.
func eachLink(t *testing.T, test func(*testing.T, link)) {
	if name := kernelDevice(); name != "" {
		t.Run(name, func(t *testing.T) { test(t, overKernel(t, softnic.Config{})) })
		return
	}
	eachSoftLink(t, softnic.Config{}, test)
}

// eachSoftLink runs a test over every kind of link between software NICs.
func eachSoftLink(t *testing.T, c softnic.Config, test func(*testing.T, link)) {
	for name, make := range links {
		t.Run(name, func(t *testing.T) {
			if name == "udp" || name == "shm" {
				needUDP(t)
			}
			test(t, make(t, c))
		})
	}
}

// needUDP skips where only one loopback address can be had.
func needUDP(t testing.TB) {
	c, err := net.ListenPacket("udp4", "127.1.2.3:0")
	if err != nil {
		t.Skip("this system has no 127.0.0.0/8 to give each NIC an address:", err)
	}
	c.Close()
}

// listen listens on the listener's end.
func (l link) listen(t testing.TB) net.Listener {
	lc := ListenConfig{Config: l.listener}
	ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln
}

// dial connects to ln from the dialer's end.
func (l link) dial(t testing.TB, ln net.Listener) *conn.Conn {
	d := Dialer{Config: l.dialer}
	c, err := d.Dial("rdma", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*conn.Conn)
}

// pair is both ends of a new connection.
func (l link) pair(t testing.TB) (client, server *conn.Conn) {
	ln := l.listen(t)
	client = l.dial(t, ln)
	c, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, ln.Close())
	return client, c.(*conn.Conn)
}

// serve runs handle on every connection of ln.
func serve(ln net.Listener, handle func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

func echo(c net.Conn) { io.Copy(c, c) }

// eventually waits until ok is true.
func eventually(t testing.TB, ok func() bool, why string) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, time.Millisecond, why)
}

// awaitBlocked waits until n goroutines are parked by a connection, called from a function
// of that name.
func awaitBlocked(t testing.TB, function string, n int) {
	eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		blocked := 0
		for g := range bytes.SplitSeq(stacks, []byte("\n\n")) {
			if bytes.Contains(g, []byte("[chan receive]")) && bytes.Contains(g, []byte("(*Conn).wait(")) &&
				bytes.Contains(g, []byte(function+"(")) {
				blocked++
			}
		}
		return blocked == n
	}, "not so many are blocked in "+function)
}

// resources are what a process may leak.
type resources struct{ descriptors, mappings, goroutines int }

func countResources(t testing.TB) resources {
	var r resources
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.descriptors = len(fds)
	}
	r.mappings, _ = hostmem.Live()
	r.goroutines = runtime.NumGoroutine()
	return r
}
