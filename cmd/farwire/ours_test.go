package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// where is a network with a program and our driver on it, each with a NIC of its own.
type where struct {
	flags []string                          // the program's run's
	nic   func(t *testing.T) softnic.Config // ours, once the program runs
	layer verbs.LinkLayer
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

// ours is the driver of this module against a peer that nobody here wrote: a queue pair
// and one region.
type ours struct {
	t      *testing.T
	done   *cq.Queue
	pair   *qp.Pair
	memory *region.Region
}

func newOurs(t *testing.T, w where, access region.Access, bytes int, c qp.Config) *ours {
	cfg := w.nic(t)
	soft, err := softnic.New(&cfg)
	require.NoError(t, err)
	return newOursOn(t, soft, access, bytes, c)
}

// newOursOn is newOurs on a NIC, which it closes at the end.
func newOursOn(t *testing.T, soft *softnic.NIC, access region.Access, bytes int, c qp.Config) *ours {
	file, err := soft.Open()
	require.NoError(t, err)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	memory, err := region.Alloc(nic, access, bytes)
	require.NoError(t, err)
	done, err := cq.New(nic, 64)
	require.NoError(t, err)
	pair, err := qp.New(done, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, pair.Destroy())
		require.NoError(t, done.Close())
		require.NoError(t, memory.Close())
		require.NoError(t, nic.Close())
		require.NoError(t, soft.Close())
	})
	return &ours{t, done, pair, memory}
}

// next is the completion that comes next, a success.
func (o *ours) next() cq.Completion {
	var c [1]cq.Completion
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

// goTool runs a program under the tool meanwhile; what it says comes when it has ended.
func goTool(t *testing.T, w where, program []string) <-chan string {
	said := make(chan string, 1)
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		defer close(said) // also if the run fails the test
		said <- runTool(t, append(append(slices.Clone(w.flags), "--"), program...)...)
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
		said = goTool(t, w, append(program, "-p", port))
		return dialPatiently(t, "127.0.0.1:"+port), port, said
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err = net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	said = goTool(t, w, append(program, "-p", port, "127.0.0.1"))
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
