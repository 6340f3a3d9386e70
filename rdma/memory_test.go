package rdma

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
)

// As many connections are made as MaxMemory has room for. The next is an error that says
// so, to the side that has no room and to its peer, and leaves room for others.
func TestMaxMemory(t *testing.T) {
	const limit = 2 << 20
	for _, side := range []string{"dialer", "listener"} {
		t.Run(side, func(t *testing.T) {
			l := inMemory(t, softnic.Config{})
			m := l.near()
			c := &l.dialer
			if side == "listener" {
				m, c = l.far(), &l.listener
			}
			c.BufferSize, c.Sends, c.Receives, c.MaxMemory = 32<<10, 16, 16, limit // nine in 2 MiB
			told := make(chan error, 1)
			lc := ListenConfig{Config: l.listener, OnError: func(_ net.Addr, err error) { told <- err }}
			ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			var open []*conn.Conn
			for range 9 {
				open = append(open, l.dial(t, ln))
			}
			registered := func() int { return onlyPort(m).registered() }
			require.Equal(t, limit, registered())
			dial := func() error {
				c, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
				if err == nil {
					t.Cleanup(func() { c.Close() })
				}
				return err
			}
			for range 3 {
				err := dial()
				if side == "listener" {
					var refused *bootstrap.RefusedError
					require.ErrorAs(t, err, &refused)
					require.Equal(t, bootstrap.CodeResources, refused.Code)
					err = <-told
				} else {
					<-told
				}
				require.ErrorIs(t, err, conn.ErrPoolLimit)
				require.ErrorContains(t, err, "2097152 bytes are registered, 1048576 more would be beyond 2097152")
			}
			require.Equal(t, limit, registered())
			far, err := ln.Accept()
			require.NoError(t, err)
			require.NoError(t, open[0].Close())
			<-open[0].Released()
			require.NoError(t, far.Close())
			<-far.(*conn.Conn).Released()
			require.NoError(t, dial(), "in the place of the one that is closed")
			if side == "dialer" { // buffers of another size count too
				l.dialer.BufferSize, l.dialer.Sends, l.dialer.Receives = 4<<10, 4, 4
				err := dial()
				<-told
				require.ErrorIs(t, err, conn.ErrPoolLimit)
				require.ErrorContains(t, err, "2097152 bytes in buffers of other sizes")
			}
		})
	}
}

// What connections gave back is registered no longer.
func TestMemoryIsGivenBack(t *testing.T) {
	l := inMemory(t, softnic.Config{})
	ln := l.listen(t)
	keep := l.dial(t, ln)
	var open []*conn.Conn
	for range 60 {
		open = append(open, l.dial(t, ln))
	}
	p := onlyPort(l.near())
	require.Greater(t, p.registered(), 6<<20)
	for _, c := range open {
		require.NoError(t, c.Close())
		<-c.Released()
	}
	require.LessOrEqual(t, p.registered(), 2<<20, "one in use, and one for the next connection")
	require.NoError(t, keep.Close())
}

// onlyPort is the one port that a machine has open.
func onlyPort(m *machine) *port {
	m.ports.mu.Lock()
	defer m.ports.mu.Unlock()
	for _, p := range m.open {
		return p
	}
	return nil
}

func TestMaxMemoryOfOneConnection(t *testing.T) {
	_, err := Config{MaxMemory: 100 << 10}.withDefaults()
	require.EqualError(t, err, "config: MaxMemory 102400 is less than the 114688 bytes of one connection")
}

// What an idle connection has registered is less than 128 KiB; one that is busy gets all that
// its Config says. The NIC counts it.
func TestMemoryOfConnections(t *testing.T) {
	l := inMemory(t, softnic.Config{})
	ln := l.listen(t)
	registered := func() int { return l.near().counters().MRs << 20 } // in slabs of 1 MiB
	type ends struct{ near, far *conn.Conn }
	var open []ends
	for range 64 {
		near := l.dial(t, ln)
		far, err := ln.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { far.Close() })
		open = append(open, ends{near, far.(*conn.Conn)})
	}
	for _, e := range open { // a question and an answer need no more
		_, err := e.near.Write(make([]byte, 100))
		require.NoError(t, err)
		_, err = io.ReadFull(e.far, make([]byte, 100))
		require.NoError(t, err)
		_, err = e.far.Write(make([]byte, 10_000))
		require.NoError(t, err)
		_, err = io.ReadFull(e.near, make([]byte, 10_000))
		require.NoError(t, err)
	}
	require.Less(t, registered()/len(open), 128<<10)

	busy := open[0]
	go io.Copy(busy.near, unevenly([32]byte{1}, 1<<40))
	read := make([]byte, 64<<10)
	require.Eventually(t, func() bool {
		for range 100 {
			if _, err := io.ReadFull(busy.far, read); err != nil {
				t.Error(err)
			}
		}
		return busy.far.Stats().Receives == conn.DefaultReceives && busy.near.Stats().Sends == conn.DefaultSends
	}, time.Minute, time.Millisecond)
	require.Equal(t, FirstReceives, open[1].far.Stats().Receives)
	require.Equal(t, FirstSends, open[1].near.Stats().Sends)
}

// Busy connections leave half of the memory to new ones.
func TestMaxMemoryOfBusyConnections(t *testing.T) {
	l := inMemory(t, softnic.Config{})
	l.listener.MaxMemory = 2 << 20
	ln := l.listen(t)
	near := l.dial(t, ln)
	c, err := ln.Accept()
	require.NoError(t, err)
	far := c.(*conn.Conn)
	t.Cleanup(func() { far.Close() })
	go io.Copy(near, unevenly([32]byte{1}, 1<<40))
	require.Eventually(t, func() bool {
		_, err := io.CopyN(io.Discard, struct{ io.Reader }{far}, 1<<20)
		return err != nil || far.Stats().LeasesRefused > 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, FirstReceives, far.Stats().Receives)
	require.Equal(t, 1<<20, onlyPort(l.far()).registered())
	l.dial(t, ln)
}
