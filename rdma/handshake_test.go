package rdma

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// A handshake for which either end has no room, at any of its steps, ends with the reason
// on both ends and leaves nothing behind: once there is room again, the next succeeds.
func TestHandshakeWithoutRoom(t *testing.T) {
	for name, limits := range map[string]softnic.Limits{
		"completion queues": {CQs: 2},
		"queue pairs":       {QPs: 2},
		"memory regions":    {MRs: 1},
		"pinned memory":     {PinnedBytes: 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			network := softnic.NewNetwork()
			roomy := newMachine(t, softnic.Config{Network: network, Link: softnic.LinkMemory})
			small := newMachine(t, softnic.Config{Network: network, Link: softnic.LinkMemory, Limits: limits})
			for _, ends := range []link{
				{dialer: Config{ports: small.ports}, listener: Config{ports: roomy.ports}},
				{dialer: Config{ports: roomy.ports}, listener: Config{ports: small.ports}},
			} {
				fillUp(t, ends)
			}
		})
	}
}

// fillUp makes connections until there is no room for more, and again after closing them.
func fillUp(t *testing.T, l link) {
	failed := make(chan error, 1)
	lc := ListenConfig{Config: l.listener, OnError: func(_ net.Addr, err error) { failed <- err }}
	ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var served sync.WaitGroup
	served.Go(func() { serve(ln, echo) })
	defer served.Wait()
	defer ln.Close()

	d := Dialer{Config: l.dialer}
	var made [2]int
	for round := range made {
		var conns []net.Conn
		for {
			c, err := d.Dial("rdma", ln.Addr().String())
			if err != nil {
				require.ErrorContains(t, err, syscall.ENOMEM.Error(), "what was lacking")
				require.Error(t, <-failed, "the other end knows")
				break
			}
			conns = append(conns, c)
		}
		made[round] = len(conns)
		for _, c := range conns {
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			require.NoError(t, err)
			require.NoError(t, c.Close())
			<-c.(*conn.Conn).Released()
		}
		for _, m := range []*machine{l.near(), l.far()} {
			m.rest(t)
		}
	}
	require.NotZero(t, made[0])
	require.Equal(t, made[0], made[1], "as many as before")
}

// Timeout ends a dial to a server that says nothing, and is a timeout to its caller.
func TestDialTimeout(t *testing.T) {
	l := loopback(t, softnic.Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go serve(ln, func(c net.Conn) { io.Copy(io.Discard, c) })
	_, err = (&Dialer{Config: l.dialer, Timeout: 50 * time.Millisecond}).Dial("rdma", ln.Addr().String())
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout(), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Neither the context nor the timeout of a dial matters to the connection that it made.
func TestDialContextEndsWithTheDial(t *testing.T) {
	l := loopback(t, softnic.Config{})
	ln := l.listen(t)
	go serve(ln, echo)
	ctx, cancel := context.WithCancel(t.Context())
	d := Dialer{Config: l.dialer, Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "rdma", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	cancel()
	for range 3 {
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
	}
}

// Numbers that make no sense are the default, or an error that says so.
func TestListenConfigNumbers(t *testing.T) {
	for _, backlog := range []int{-1, math.MinInt} {
		ln, err := (&ListenConfig{Backlog: backlog}).Listen(t.Context(), "rdma", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, ln.Close())
	}
}

// What a client says of itself, and where in the handshake it stops, is an error for
// OnError and leaves nothing behind while the listener lives.
func TestHostileClients(t *testing.T) {
	l := loopback(t, softnic.Config{})
	failed := make(chan error, 1)
	lc := ListenConfig{Config: l.listener, OnError: func(_ net.Addr, err error) { failed <- err }}
	ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	good := bootstrap.Message{
		Endpoint: verbs.Endpoint{QPN: 77, LinkLayer: verbs.LinkEthernet, GID: verbs.GIDFrom(addr("127.9.9.9")), MTU: verbs.MTU4096},
		Receives: 16, Size: 16 << 10,
	}
	with := func(change func(*bootstrap.Message)) bootstrap.Message {
		m := good
		change(&m)
		return m
	}
	goOn := func(net.Conn) error { return nil }
	for name, client := range map[string]struct {
		says    bootstrap.Message
		connect func(net.Conn) error
	}{
		"another machine": {with(func(m *bootstrap.Message) { m.Endpoint.GID = verbs.GIDFrom(addr("203.0.113.9")) }), goOn},
		"another family":  {with(func(m *bootstrap.Message) { m.Endpoint.GID = verbs.GIDFrom(addr("::1")) }), goOn},
		"another layer":   {with(func(m *bootstrap.Message) { m.Endpoint.LinkLayer, m.Endpoint.LID = verbs.LinkInfiniBand, 1 }), goOn},
		"stops half-way":  {good, func(net.Conn) error { return io.ErrShortWrite }},
		"vanishes":        {good, func(nc net.Conn) error { return errors.Join(io.ErrShortWrite, nc.Close()) }},
		"resets": {good, func(nc net.Conn) error {
			nc.(*net.TCPConn).SetLinger(0)
			return errors.Join(io.ErrShortWrite, nc.Close())
		}},
		"says something else": {good, func(nc net.Conn) error {
			_, err := io.WriteString(nc, "GET / HTTP/1.1\r\n\r\n")
			return errors.Join(io.ErrShortWrite, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer nc.Close()
			_, err = bootstrap.Exchange{}.Dial(t.Context(), nc, client.says, func(bootstrap.Message) error { return client.connect(nc) })
			require.Error(t, err)
			require.Error(t, <-failed)
			l.far().rest(t)
		})
	}
}
