package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKernelGIDs has addresses come and go, also those of a VLAN, and reads the
// table both ways; each change is an asynchronous event.
func TestKernelGIDs(t *testing.T) {
	d := newLink(t)
	f, err := d.Open()
	require.NoError(t, err)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	defer c.Close()
	check := func(addrs ...string) Port {
		t.Helper()
		awaitGIDs(t, addrs...)
		d, ok := deviceNamed(t, "rxet")
		require.True(t, ok)
		compareGIDs(t, c, d)
		for _, g := range d.Ports[0].GIDs {
			require.Equal(t, GIDTypeRoCEv2, g.Type, "Soft-RoCE has one version")
		}
		return d.Ports[0]
	}
	check("10.77.0.1", "fd00:77::1")
	run(t, "ip addr add 10.78.0.1/24 dev tv")
	awaitEvent(t, c, Event{Type: EventGIDChange, Element: 1})
	check("10.77.0.1", "fd00:77::1", "10.78.0.1")

	// A slot that was given up is used again: indices have gaps, and mean
	// something else later.
	before := check("10.77.0.1", "fd00:77::1", "10.78.0.1")
	run(t, "ip addr del 10.77.0.1/24 dev tv")
	check("fd00:77::1", "10.78.0.1")
	run(t, "ip addr add 10.79.0.1/24 dev tv")
	after := check("fd00:77::1", "10.78.0.1", "10.79.0.1")
	require.Equal(t, gidOf(t, before, "10.77.0.1").Index, gidOf(t, after, "10.79.0.1").Index)

	run(t, `ip link add link tv name tv.7 type vlan id 7
		ip addr add 10.80.0.1/24 dev tv.7
		ip addr add fd00:80::1/64 dev tv.7 nodad
		ip link set tv.7 up`)
	vlan := check("fd00:77::1", "10.78.0.1", "10.79.0.1", "10.80.0.1", "fd00:80::1")
	require.Equal(t, "tv.7", gidOf(t, vlan, "10.80.0.1").NetDev)
	run(t, "ip link delete tv.7")
	check("fd00:77::1", "10.78.0.1", "10.79.0.1")
}

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

// TestKernelPort takes the port's wire away and gives it back.
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
	run(t, "ip link set tw down")
	awaitEvent(t, c, Event{Type: EventPortError, Element: 1})
	require.Equal(t, PortDown, state())
	run(t, "ip link set tw up")
	awaitEvent(t, c, Event{Type: EventPortActive, Element: 1})
	require.Equal(t, PortActive, state())
}
