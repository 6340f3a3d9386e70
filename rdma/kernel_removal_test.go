package rdma

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/internal/vmtest/slot"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// The kernel takes the device of connections away: all calls on them end, with what TCP's
// would. A listener has no device of its own: it goes on, and once there is one again, new
// connections come.
func TestKernelDeviceRemoval(t *testing.T) {
	name := os.Getenv(mlx5Env)
	if name == "" {
		t.Skip(mlx5Env + " is not set: make vm-mlx5")
	}
	for _, way := range slot.Ways {
		t.Run(way.Name, func(t *testing.T) {
			l := overKernel(t, softnic.Config{})
			ln := l.listen(t)
			ended := make(chan error, 6)
			call := func(f func() error) { go func() { ended <- f() }() }
			var conns []net.Conn
			for i := range 3 {
				near := l.dial(t, ln)
				c, err := ln.Accept()
				require.NoError(t, err)
				t.Cleanup(func() { c.Close() })
				conns = append(conns, near, c)
				for _, c := range []*conn.Conn{near, c.(*conn.Conn)} {
					switch i {
					case 0:
						call(func() error { _, err := c.Read(make([]byte, 1)); return err })
					case 1:
						call(func() error { _, err := c.Write(make([]byte, 64<<20)); return err })
					case 2:
						call(func() error { _, err := c.ReadFrom(unevenly([32]byte{}, 1<<40)); return err })
					}
				}
			}
			accepted := make(chan net.Conn, 2)
			go serve(ln, func(c net.Conn) { accepted <- c; echo(c) })
			for _, function := range []string{"(*Conn).Read", "(*Conn).Write", "(*Conn).ReadFrom"} {
				awaitBlocked(t, function, 2)
			}

			back := way.Take(t, name)
			for range cap(ended) {
				select {
				case err := <-ended:
					requireReset(t, err)
					require.ErrorIs(t, err, verbs.ErrDeviceFatal)
				case <-time.After(time.Minute):
					require.FailNow(t, "a call has not ended")
				}
			}
			_, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
			require.ErrorContains(t, err, name)
			require.Empty(t, accepted)
			for _, c := range conns {
				require.NoError(t, c.Close())
			}
			l.near().settle(t)
			l.far().settle(t) // the listener's hold on it too

			back()
			c := l.dial(t, ln)
			_, err = c.Write([]byte("again"))
			require.NoError(t, err)
			got := make([]byte, 5)
			_, err = io.ReadFull(c, got)
			require.NoError(t, err)
			require.Equal(t, "again", string(got))
			require.NoError(t, c.Close())
		})
	}
}
