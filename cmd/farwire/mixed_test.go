package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// The peer is rdma-core's own example on libmlx5.

// rounds is how many messages go each way, messageSize the bytes of each, depth the
// receives posted.
const (
	rounds      = 100
	messageSize = 4096
	depth       = 16
)

func TestOurDriverAgainstPingpong(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	w := onDevice(t)
	program := []string{"ibv_rc_pingpong", "-e", "-n", fmt.Sprint(rounds), "-s", fmt.Sprint(messageSize)}
	if w.device == "" {
		program = append(program, "-g", "1")
	}
	program = append(program, w.gidArgs(t, "-g")...)
	t.Run("we dial", func(t *testing.T) {
		c, _, said := meet(t, w, program, true)
		p := newPinger(t, w)
		p.tell(c)
		p.connect(p.hear(c))
		_, err := c.Write([]byte("done\x00"))
		require.NoError(t, err)
		p.play(true)
		require.Contains(t, <-said, fmt.Sprintf("%d iters in", rounds))
	})
	t.Run("it dials", func(t *testing.T) {
		c, _, said := meet(t, w, program, false)
		p := newPinger(t, w)
		p.connect(p.hear(c))
		p.tell(c)
		readFull(t, c, len("done\x00"))
		p.play(false)
		require.Contains(t, <-said, fmt.Sprintf("%d iters in", rounds))
	})
}

// pinger is our end: it sends and receives from one region, its first message for
// sending.
type pinger struct{ *ours }

func newPinger(t *testing.T, w where) pinger {
	return pinger{newOurs(t, w, work.Local, (1+depth)*messageSize, 4, depth)}
}

// The program's message over TCP: LID, queue pair number, PSN and GID in hexadecimal, and
// a zero byte.
const introduction = len("0000:000000:000000:") + 32 + 1

func (p pinger) tell(c net.Conn) {
	e := p.pair.Endpoint()
	if e.LinkLayer == verbs.LinkInfiniBand {
		e.GID = verbs.GID{} // or the program sends by GID, and has no -g
	}
	_, err := fmt.Fprintf(c, "%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID[:])
	require.NoError(p.t, err)
}

func (p pinger) hear(c net.Conn) verbs.Endpoint {
	b := readFull(p.t, c, introduction)
	e := verbs.Endpoint{LinkLayer: p.pair.Endpoint().LinkLayer, MTU: verbs.MTUFrom(1024)} // the program's default MTU
	fields := strings.Split(string(b[:introduction-1]), ":")
	require.Len(p.t, fields, 4)
	_, err := fmt.Sscanf(strings.Join(fields[:3], " "), "%x %x %x", &e.LID, &e.QPN, &e.PSN)
	require.NoError(p.t, err)
	raw, err := hex.DecodeString(fields[3])
	require.NoError(p.t, err)
	copy(e.GID[:], raw)
	return e
}

// connect connects to the program's queue pair and posts every receive.
func (p pinger) connect(e verbs.Endpoint) {
	require.NoError(p.t, p.pair.Connect(work.Local, e))
	for i := range depth {
		p.receive(uint64(i))
	}
}

func (p pinger) receive(i uint64) {
	require.NoError(p.t, p.pair.Receive(i, p.memory.Local(int(1+i)*messageSize, messageSize)))
}

// ping sends message number i, every byte of which is fill(i).
func (p pinger) ping(i int) {
	copy(p.memory.Bytes(), bytes.Repeat([]byte{fill(i)}, messageSize))
	p.post(work.Entry{Op: work.Send, Local: p.memory.Local(0, messageSize), Signaled: true})
}

func fill(i int) byte { return byte(i + 1) }

// untouched is what the program's buffer holds before anything has arrived in it. It
// sends from the buffer it receives in, so later messages bring back what it got last.
const untouched = 0x7b

// play sends and receives until all messages have gone and come. One side serves.
func (p pinger) play(serve bool) {
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
		c := p.next()
		if c.Ring == work.Sends {
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
