package rdma

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
)

// A listener's device is opened for its first client and stays open, without clients too,
// until the listener is closed. One that fails is let go at once, and the next client has
// another.
func TestListenerKeepsDevice(t *testing.T) {
	l := inMemory(t, softnic.Config{})
	ln := l.listen(t)
	go serve(ln, echo)
	once := func() {
		c := l.dial(t, ln)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		<-c.Released()
		l.far().rest(t)
	}
	opened := func() int {
		l.far().mu.Lock()
		defer l.far().mu.Unlock()
		return len(l.far().nics)
	}
	require.Zero(t, opened())
	for range 3 {
		once()
		require.Equal(t, 1, opened())
	}
	failed := l.far().nic()
	failed.Fail()
	l.far().settle(t)
	require.Zero(t, failed.Counters().Contexts, "it is closed")
	once()
	require.Equal(t, 2, opened())
	require.NoError(t, ln.Close())
	l.far().settle(t)
}
