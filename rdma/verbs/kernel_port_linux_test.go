package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gidOf is the entry of an address.
func gidOf(t *testing.T, p Port, addr string) GIDEntry {
	t.Helper()
	want, err := ParseGID(addr)
	require.NoError(t, err)
	for _, g := range p.GIDs {
		if g.GID == want {
			return g
		}
	}
	require.Fail(t, "no GID", addr)
	return GIDEntry{}
}

// awaitEvent reads asynchronous events until one is want.
func awaitEvent(t *testing.T, c *Context, want Event) {
	t.Helper()
	require.NoError(t, c.Async().SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, AsyncEventSize)
	for {
		n, err := c.Async().Read(b)
		require.NoError(t, err, "waiting for %v", want)
		e, err := ParseEvent(b[:n])
		require.NoError(t, err)
		if e == want {
			return
		}
	}
}

// TestKernelPort takes the port's wire away, gives it back, and changes its
// addresses: the asynchronous events tell of it.
func TestKernelPort(t *testing.T) {
	d := newLink(t)
	f, err := d.Open()
	require.NoError(t, err)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	defer c.Close()
	state := func() PortState {
		p, err := c.QueryPort(1)
		require.NoError(t, err)
		return p.State
	}
	require.Equal(t, PortActive, state())
	shell(t, "ip link set tw down")
	awaitEvent(t, c, Event{Type: EventPortError, Element: 1})
	require.Equal(t, PortDown, state())
	shell(t, "ip link set tw up")
	awaitEvent(t, c, Event{Type: EventPortActive, Element: 1})
	require.Equal(t, PortActive, state())
	shell(t, "ip addr add 10.78.0.1/24 dev tv")
	awaitEvent(t, c, Event{Type: EventGIDChange, Element: 1})
}
