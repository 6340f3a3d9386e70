package rdma

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
)

// A thousand connections at once, each used both ways, leave exactly nothing behind, and
// while they are open there is exactly what they need.
func TestThousandConnections(t *testing.T) {
	const n = 1000
	m := newMachine(t, softnic.Config{})
	l := link{Config{ports: m.ports}, Config{ports: m.ports}}
	before := countResources(t)

	ln := l.listen(t)
	served := make(chan net.Conn, n)
	go func() {
		for range n {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			served <- c
		}
	}()
	clients := make([]net.Conn, n)
	inParallel(n, 32, func(i int) {
		d := Dialer{Config: l.dialer}
		c, err := d.Dial("rdma", ln.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		clients[i] = c
	})
	require.False(t, t.Failed())
	servers := make([]net.Conn, n)
	for i := range servers {
		servers[i] = <-served
		go echo(servers[i])
	}
	inParallel(n, 32, func(i int) {
		out, in := []byte{byte(i), byte(i >> 8)}, make([]byte, 2)
		clients[i].Write(out)
		if _, err := io.ReadFull(clients[i], in); err != nil || in[0] != out[0] || in[1] != out[1] {
			t.Error("echo:", in, err)
		}
	})

	c := m.counters()
	require.Equal(t, 2*n, c.QPs)
	require.Equal(t, 2*n, c.CQs)
	require.Equal(t, 1, c.PDs)
	require.Equal(t, 1, c.Contexts)
	require.LessOrEqual(t, c.MRs, 2*n*(conn.DefaultReceives+conn.DefaultSends)*conn.DefaultSize/(1<<20)+1)

	inParallel(n, 32, func(i int) {
		if err := clients[i].Close(); err != nil {
			t.Error("close:", err)
		}
		<-clients[i].(*conn.Conn).Released()
		servers[i].Close()
		<-servers[i].(*conn.Conn).Released()
	})
	require.NoError(t, ln.Close())
	m.settleTo(t, before)
}

// inParallel calls f for 0 to n-1 on a number of goroutines.
func inParallel(n, goroutines int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// Connections that come and go, the client first, leave nothing, however many.
func TestOpenAndClose(t *testing.T) {
	m := newMachine(t, softnic.Config{})
	l := link{Config{ports: m.ports}, Config{ports: m.ports}}
	before := countResources(t)
	ln := l.listen(t)
	go serve(ln, echo)
	keep := l.dial(t, ln) // the device stays open
	for i := range 2000 {
		c, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
		require.NoError(t, err)
		if i%2 == 0 {
			c.Write([]byte("bytes that nobody will read"))
		}
		require.NoError(t, c.Close())
		<-c.(*conn.Conn).Released()
	}
	require.NoError(t, keep.Close())
	require.NoError(t, ln.Close())
	m.settleTo(t, before)
}

// So do connections that both ends close at the same time.
func TestSimultaneousClose(t *testing.T) {
	m := newMachine(t, softnic.Config{})
	l := link{Config{ports: m.ports}, Config{ports: m.ports}}
	before := countResources(t)
	ln := l.listen(t)
	for i := range 500 {
		client := l.dial(t, ln)
		server, err := ln.Accept()
		require.NoError(t, err)
		if i%3 == 0 {
			client.Write(make([]byte, 100_000))
		}
		var wg sync.WaitGroup
		wg.Go(func() { client.Close() })
		wg.Go(func() { server.Close() })
		wg.Wait()
		<-client.Released()
		<-server.(*conn.Conn).Released()
	}
	require.NoError(t, ln.Close())
	m.settleTo(t, before)
}

// settleTo waits until the devices are closed and the process has no more resources than
// it had before them. It starts no goroutine to do so, as it counts them.
func (m *machine) settleTo(t testing.TB, before resources) {
	t.Helper()
	m.settle(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); countResources(t) != before; <-tick.C {
		if time.Now().After(end) {
			require.Equal(t, before, countResources(t), "something is left")
		}
	}
}
