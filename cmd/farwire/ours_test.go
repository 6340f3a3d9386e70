package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/rxe"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// where is a network with a program and our driver on it, each with a NIC of its own, or
// both on a device of the kernel's.
type where struct {
	flags []string                          // the program's run's
	nic   func(t *testing.T) softnic.Config // ours, once the program runs
	layer verbs.LinkLayer

	device string // of the kernel; the fields before layer are not used then
}

// These name a device of the kernel's that tests may use, where there is one: of Soft-RoCE
// (make vm), or of the mlx5 driver (make vm-mlx5).
const (
	rxeEnv  = "FARWIRE_RXE"
	mlx5Env = "FARWIRE_MLX5"
)

// kernelDevice is the name of that device; empty if there is none.
func kernelDevice() string { return cmp.Or(os.Getenv(rxeEnv), os.Getenv(mlx5Env)) }

// onDevice is on the kernel's device if there is one, and on Ethernet otherwise.
func onDevice(t *testing.T) where {
	name := kernelDevice()
	if name == "" {
		return overUDP
	}
	devices, err := verbs.Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		if d.Name == name {
			return where{device: name, layer: d.Ports[0].LinkLayer}
		}
	}
	require.Fail(t, "no such device", name)
	return where{}
}

// gidArgs makes a program use the kernel's device, and at its IPv4 address, which rdma-core
// names by its index, if that is on Ethernet. On software NICs it has no choice.
func (w where) gidArgs(t *testing.T, option string) []string {
	switch {
	case w.device == "":
		return nil
	case w.layer == verbs.LinkInfiniBand:
		return []string{"-d", w.device}
	}
	devices, err := verbs.Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		for _, g := range d.Ports[0].GIDs {
			if d.Name == w.device && g.GID.IsV4() {
				return []string{"-d", d.Name, option, fmt.Sprint(g.Index)}
			}
		}
	}
	require.Fail(t, "no IPv4 address", w.device)
	return nil
}

// overUDP has the packets cross UDP.
var overUDP = where{
	flags: []string{"-nic=link=udp"},
	nic: func(*testing.T) softnic.Config {
		return softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP}
	},
	layer: verbs.LinkEthernet,
}

// onInfiniBand has this process join the network of the program's run.
func onInfiniBand(t *testing.T) where {
	at := networkSocket{path: filepath.Join(t.TempDir(), "net")}
	return where{
		flags: []string{"-link=ib", "-network=" + at.path},
		nic: func(t *testing.T) softnic.Config {
			cfg := softnic.Config{LinkLayer: verbs.LinkInfiniBand}
			leave, err := joinNetwork(&cfg, "net", at)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, leave()) })
			return cfg
		},
		layer: verbs.LinkInfiniBand,
	}
}

// ours is a driver of this module against a peer that nobody here wrote: a queue pair
// and one region. It is rxe's on a Soft-RoCE device, and mlx5's elsewhere.
type ours struct {
	t      *testing.T
	done   ourQueue
	pair   ourPair
	memory ourMemory
	mtu    verbs.MTU // of its port
}

type ourQueue interface {
	Poll([]work.Completion) (int, error)
	Wait(context.Context) error
	Close() error
}

type ourPair interface {
	Endpoint() verbs.Endpoint
	Connect(work.Access, verbs.Endpoint) error
	Receive(id uint64, into ...work.Segment) error
	Post(work.Entry) error
	Ring() error
	Destroy() error
}

type ourMemory interface {
	Bytes() []byte
	Local(off, n int) work.Segment
	Remote(off int) (work.Target, error)
	Close() error
}

func newOurs(t *testing.T, w where, access work.Access, bytes, sends, receives int) *ours {
	o := &ours{t: t}
	switch w.device {
	case "":
	case os.Getenv(rxeEnv):
		return o.closing(o.openRXE(w.device, access, bytes, sends, receives))
	default:
		nic, err := mlx5.Open(w.device)
		require.NoError(t, err)
		return o.closing(o.openMLX5(nic, access, bytes, sends, receives))
	}
	cfg := w.nic(t)
	soft, err := softnic.New(&cfg)
	require.NoError(t, err)
	return newOursOn(t, soft, access, bytes, sends, receives)
}

// newOursOn is newOurs on a software NIC, which it closes at the end.
func newOursOn(t *testing.T, soft *softnic.NIC, access work.Access, bytes, sends, receives int) *ours {
	file, err := soft.Open()
	require.NoError(t, err)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	o := &ours{t: t}
	closeNIC := o.openMLX5(nic, access, bytes, sends, receives)
	return o.closing(func() {
		closeNIC()
		require.NoError(t, soft.Close())
	})
}

// closing is o, which is closed when the test ends.
func (o *ours) closing(closeNIC func()) *ours {
	o.mtu = o.pair.Endpoint().MTU
	o.t.Cleanup(func() {
		require.NoError(o.t, o.pair.Destroy())
		require.NoError(o.t, o.done.Close())
		require.NoError(o.t, o.memory.Close())
		closeNIC()
	})
	return o
}

// completions is the size of a completion queue.
const completions = 64

func (o *ours) openMLX5(nic *mlx5.NIC, access work.Access, bytes, sends, receives int) (closeNIC func()) {
	var err error
	o.memory, err = region.Alloc(nic, access, bytes)
	require.NoError(o.t, err)
	done, err := cq.New(nic, completions)
	require.NoError(o.t, err)
	pair, err := qp.New(done, qp.Config{Sends: sends, Receives: receives})
	require.NoError(o.t, err)
	o.done, o.pair = done, mlx5Pair{pair}
	return func() { require.NoError(o.t, nic.Close()) }
}

// mlx5Pair is a queue pair whose doorbell cannot fail.
type mlx5Pair struct{ *qp.Pair }

func (p mlx5Pair) Ring() error {
	p.Pair.Ring()
	return nil
}

func (o *ours) openRXE(name string, access work.Access, bytes, sends, receives int) (closeNIC func()) {
	nic, err := rxe.Open(name)
	require.NoError(o.t, err)
	o.memory, err = rxe.Alloc(nic, access, bytes)
	require.NoError(o.t, err)
	done, err := rxe.NewQueue(nic, completions)
	require.NoError(o.t, err)
	o.done = done
	o.pair, err = rxe.NewPair(done, rxe.PairConfig{Sends: sends, Receives: receives})
	require.NoError(o.t, err)
	return func() { require.NoError(o.t, nic.Close()) }
}

// post posts an entry and rings.
func (o *ours) post(e work.Entry) {
	require.NoError(o.t, o.pair.Post(e))
	require.NoError(o.t, o.pair.Ring())
}

// next is the completion that comes next, a success.
func (o *ours) next() work.Completion {
	var c [1]work.Completion
	for {
		n, err := o.done.Poll(c[:])
		require.NoError(o.t, err)
		if n == 1 {
			require.NoError(o.t, c[0].Err())
			return c[0]
		}
		require.NoError(o.t, o.done.Wait(o.t.Context()))
	}
}

// start runs a program meanwhile, under the tool or on the kernel's device; what it says
// comes when it has ended.
func (w where) start(t *testing.T, program []string) <-chan string {
	said := make(chan string, 1)
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		defer close(said) // also if the run fails the test
		if w.device == "" {
			said <- runTool(t, append(append(slices.Clone(w.flags), "--"), program...)...)
			return
		}
		out, err := exec.CommandContext(t.Context(), program[0], program[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", program, err, out)
		}
		said <- string(out)
	}()
	return said
}

func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}

// dialPatiently dials a program that may not listen yet.
func dialPatiently(t *testing.T, address string) (c net.Conn) {
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = net.Dial("tcp", address)
		return err == nil
	}, bound, 10*time.Millisecond, "nobody listens")
	t.Cleanup(func() { c.Close() })
	return c
}

// meet starts a program that serves or dials at a port of this machine, as its last
// arguments say, and returns the connection with it.
func meet(t *testing.T, w where, program []string, weDial bool) (c net.Conn, port string, said <-chan string) {
	if weDial {
		port = freePort(t)
		said = w.start(t, append(program, "-p", port))
		return dialPatiently(t, "127.0.0.1:"+port), port, said
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err = net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	said = w.start(t, append(program, "-p", port, "127.0.0.1"))
	c, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c, port, said
}

// readFull reads n bytes.
func readFull(t *testing.T, r io.Reader, n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	require.NoError(t, err)
	return b
}
