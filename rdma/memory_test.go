package rdma

import (
	"net"
	"testing"

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
			c.BufferSize, c.Sends, c.Receives, c.MaxMemory = 8<<10, 16, 16, limit // 4 in a MiB
			told := make(chan error, 1)
			lc := ListenConfig{Config: l.listener, OnError: func(_ net.Addr, err error) { told <- err }}
			ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			var open []*conn.Conn
			for range 8 {
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
	for range 20 {
		open = append(open, l.dial(t, ln))
	}
	p := onlyPort(l.near())
	require.Greater(t, p.registered(), 7<<20)
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
	require.EqualError(t, err, "config: MaxMemory 102400 is less than the 393216 bytes of one connection")
}
