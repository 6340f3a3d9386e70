package rdma

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
)

// A thousand connections at once, each used both ways, leave exactly nothing behind, and
// while they are open there is exactly what they need.
func TestThousandConnections(t *testing.T) {
	const n = 1000
	m := newMachine(t, softnic.Config{})
	l := link{Config{ports: m.ports}, Config{ports: m.ports}}
	before := countAlone(t)

	ln := l.listen(t)
	keep := l.dial(t, ln) // the device and what it needs once
	kept, err := ln.Accept()
	require.NoError(t, err)
	go echo(kept)
	one := countSteady(t)
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

	const ends = 2*n + 2
	const registered = ends * (FirstReceives + FirstSends) * conn.DefaultSize
	c := m.counters()
	require.Equal(t, ends, c.QPs)
	require.Equal(t, ends, c.CQs)
	require.Equal(t, 1, c.PDs)
	require.Equal(t, 1, c.Contexts)
	require.Equal(t, 2, c.EventFiles, "completions of all connections, and asynchronous events")
	require.Equal(t, (registered+1<<20-1)/(1<<20), c.MRs, "slabs of 1 MiB")
	all := countResources(t)
	require.Equal(t, one.descriptors+2*n, all.descriptors, "the bootstrap connections")
	reach(t, resources{all.descriptors, all.mappings, one.goroutines + 2*n + n}) // watchers and echoes

	keep.Close()
	kept.Close()
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
	l := anyLink(t)
	before := countAlone(t)
	ln := l.listen(t)
	go serve(ln, echo)
	keep := l.dial(t, ln) // the device stays open
	for i := range times(10_000) {
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
	l.near().settle(t)
	l.far().settleTo(t, before)
}

// So do connections that both ends close at the same time.
func TestSimultaneousClose(t *testing.T) {
	l := anyLink(t)
	before := countAlone(t)
	ln := l.listen(t)
	for i := range times(2000) {
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
	l.near().settle(t)
	l.far().settleTo(t, before)
}

// Nor do those that one end closes while the other writes, which is told so.
func TestCloseUnderWrite(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		before := countAlone(t)
		ln := l.listen(t)
		for i := range times(300) {
			client := l.dial(t, ln)
			c, err := ln.Accept()
			require.NoError(t, err)
			closer, writer := client, c.(*conn.Conn)
			if i%2 == 0 {
				closer, writer = writer, closer
			}
			wrote := make(chan error, 1)
			go func() {
				_, err := io.Copy(writer, unevenly([32]byte{}, 1<<40))
				wrote <- err
			}()
			_, err = io.ReadFull(closer, make([]byte, 1+i*100))
			require.NoError(t, err)
			require.NoError(t, closer.Close())
			if err := <-wrote; !errors.Is(err, syscall.EPIPE) {
				requireReset(t, err)
			}
			require.NoError(t, writer.Close())
			<-closer.Released()
			<-writer.Released()
		}
		require.NoError(t, ln.Close())
		l.near().settle(t)
		l.far().settleTo(t, before)
	})
}

// times is how often to do something: n times, but less often under the race detector, and
// over a device of the kernel's, which an emulated machine runs.
func times(n int) int {
	switch {
	case kernelDevice() != "":
		return n / 200
	case raceEnabled:
		return n / 10
	}
	return n
}

// countAlone is countResources once what earlier tests started is gone.
func countAlone(t testing.TB) resources {
	require.NoError(t, goleak.Find())
	return countResources(t)
}

// countSteady is countResources once goroutines that are about to end have ended: when the
// count has stayed the same for a while.
func countSteady(t testing.TB) (r resources) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for same := 0; same < 100; <-tick.C {
		if now := countResources(t); now == r {
			same++
		} else {
			r, same = now, 0
		}
	}
	return r
}

// settleTo waits until the devices are closed and the process has no more resources than
// it had before them.
func (m *machine) settleTo(t testing.TB, before resources) {
	t.Helper()
	m.settle(t)
	reach(t, before)
}

// reach waits until the process has exactly these resources. It starts no goroutine to do
// so, as it counts them.
func reach(t testing.TB, want resources) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); countResources(t) != want; <-tick.C {
		if time.Now().After(end) {
			require.Equal(t, want, countResources(t), "resources of the process")
		}
	}
}
