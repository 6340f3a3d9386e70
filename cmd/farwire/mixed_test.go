package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
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

// The driver of this module against a peer that nobody here wrote: rdma-core's own
// example on libmlx5. Each has a NIC of its own, and the packets cross UDP.

// rounds is how many messages go each way, messageSize the bytes of each, depth the
// receives posted.
const (
	rounds      = 100
	messageSize = 4096
	depth       = 16
)

func TestOurDriverAgainstPingpong(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	program := []string{"ibv_rc_pingpong", "-g", "1", "-e", "-n", fmt.Sprint(rounds), "-s", fmt.Sprint(messageSize)}
	t.Run("we dial", func(t *testing.T) {
		port := freePort(t)
		said := goTool(t, append(program, "-p", port))
		c := dialPatiently(t, "127.0.0.1:"+port)
		p := newPinger(t)
		p.tell(c)
		p.connect(p.hear(c))
		_, err := c.Write([]byte("done\x00"))
		require.NoError(t, err)
		p.play(true)
		require.Contains(t, <-said, fmt.Sprintf("%d iters in", rounds))
	})
	t.Run("it dials", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		_, port, err := net.SplitHostPort(ln.Addr().String())
		require.NoError(t, err)
		said := goTool(t, append(program, "-p", port, "127.0.0.1"))
		c, err := ln.Accept()
		require.NoError(t, err)
		defer c.Close()
		p := newPinger(t)
		p.connect(p.hear(c))
		p.tell(c)
		_, err = io.ReadFull(c, make([]byte, len("done\x00")))
		require.NoError(t, err)
		p.play(false)
		require.Contains(t, <-said, fmt.Sprintf("%d iters in", rounds))
	})
}

// goTool runs a program under the tool meanwhile; what it says comes when it has ended.
func goTool(t *testing.T, program []string) <-chan string {
	said := make(chan string, 1)
	go func() {
		defer close(said) // also if the run fails the test
		said <- runTool(t, append([]string{"-nic=link=udp", "--"}, program...)...)
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

// pinger is our end: a queue pair that sends and receives from one region, its first
// message for sending.
type pinger struct {
	t      *testing.T
	done   *cq.Queue
	pair   *qp.Pair
	memory *region.Region
}

func newPinger(t *testing.T) *pinger {
	soft, err := softnic.New(&softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP})
	require.NoError(t, err)
	file, err := soft.Open()
	require.NoError(t, err)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	memory, err := region.Alloc(nic, region.Local, (1+depth)*messageSize)
	require.NoError(t, err)
	done, err := cq.New(nic, 64)
	require.NoError(t, err)
	pair, err := qp.New(done, qp.Config{Sends: 4, Receives: depth})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, pair.Destroy())
		require.NoError(t, done.Close())
		require.NoError(t, memory.Close())
		require.NoError(t, nic.Close())
		require.NoError(t, soft.Close())
	})
	return &pinger{t, done, pair, memory}
}

// The program's message over TCP: LID, queue pair number, PSN and GID in hexadecimal, and
// a zero byte.
const introduction = len("0000:000000:000000:") + 32 + 1

func (p *pinger) tell(c net.Conn) {
	e := p.pair.Endpoint()
	_, err := fmt.Fprintf(c, "%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID[:])
	require.NoError(p.t, err)
}

func (p *pinger) hear(c net.Conn) verbs.Endpoint {
	b := make([]byte, introduction)
	_, err := io.ReadFull(c, b)
	require.NoError(p.t, err)
	e := verbs.Endpoint{LinkLayer: verbs.LinkEthernet, MTU: verbs.MTUFrom(1024)} // the program's default MTU
	fields := strings.Split(string(b[:introduction-1]), ":")
	require.Len(p.t, fields, 4)
	_, err = fmt.Sscanf(fields[1]+" "+fields[2], "%x %x", &e.QPN, &e.PSN)
	require.NoError(p.t, err)
	raw, err := hex.DecodeString(fields[3])
	require.NoError(p.t, err)
	copy(e.GID[:], raw)
	return e
}

// connect connects to the program's queue pair and posts every receive.
func (p *pinger) connect(e verbs.Endpoint) {
	require.NoError(p.t, p.pair.Connect(region.Local, e))
	for i := range depth {
		p.receive(uint64(i))
	}
}

func (p *pinger) receive(i uint64) {
	require.NoError(p.t, p.pair.Receive(i, p.memory.Local(int(1+i)*messageSize, messageSize)))
}

// ping sends message number i, every byte of which is fill(i).
func (p *pinger) ping(i int) {
	copy(p.memory.Bytes(), bytes.Repeat([]byte{fill(i)}, messageSize))
	require.NoError(p.t, p.pair.Post(qp.Entry{Op: qp.Send, Local: p.memory.Local(0, messageSize), Signaled: true}))
	p.pair.Ring()
}

func fill(i int) byte { return byte(i + 1) }

// untouched is what the program's buffer holds before anything has arrived in it. It
// sends from the buffer it receives in, so later messages bring back what it got last.
const untouched = 0x7b

// play sends and receives until all messages have gone and come. One side serves.
func (p *pinger) play(serve bool) {
	posted, completed, received := 0, 0, 0
	next := func() {
		if posted < rounds {
			p.ping(posted)
			posted++
		}
	}
	want := byte(untouched)
	if serve {
		want = fill(0)
		next()
	}
	for completed < rounds || received < rounds {
		require.NoError(p.t, p.done.Wait(p.t.Context()))
		var polled [8]cq.Completion
		n, err := p.done.Poll(polled[:])
		require.NoError(p.t, err)
		for _, c := range polled[:n] {
			require.NoError(p.t, c.Err())
			if c.Ring == qp.Sends {
				completed++
				continue
			}
			received++
			require.EqualValues(p.t, messageSize, c.Bytes)
			got := p.memory.Bytes()[int(1+c.ID)*messageSize:][:messageSize]
			require.Equal(p.t, bytes.Repeat([]byte{want}, messageSize), got, "message %d", received)
			p.receive(c.ID)
			next()
			want = fill(posted - 1)
		}
	}
}
