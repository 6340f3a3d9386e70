package verbs

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// resources is what rxet has, in the kernel's own count.
func resources(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show", "rxet").Output()
	require.NoError(t, err)
	return string(out)
}

func requireResources(t *testing.T, want string) {
	t.Helper()
	var got string
	require.Eventually(t, func() bool { got = resources(t); return got == want }, patience, 50*time.Millisecond, "%s instead of %s", &got, want)
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

// Close with everything alive: the kernel destroys it all.
func TestKernelCloseWithObjectsAlive(t *testing.T) {
	d := newLink(t)
	before := resources(t)
	newKernelObjects(t, d).close(t) // what the runtime opens for itself is open now
	requireResources(t, before)
	files := openFiles(t)
	o := newKernelObjects(t, d)
	require.Equal(t, files+3, openFiles(t), "context, asynchronous events, completion channel")
	o.connect(t, gidOf(t, d.Ports[0], "10.77.0.1"))
	require.NotEqual(t, before, resources(t))
	require.Contains(t, resources(t), "ctx 1", "%s", resources(t))
	o.close(t)
	require.Equal(t, files, openFiles(t))
	requireResources(t, before)
}

// A mapped queue keeps the context and its objects alive, and Close says so.
func TestKernelCloseWhileMapped(t *testing.T) {
	d := newLink(t)
	before := resources(t)
	o := newKernelObjects(t, d)
	during := resources(t)
	require.NoError(t, o.channel.Close())
	require.ErrorContains(t, o.c.Close(), "3 pages are still mapped")
	require.Equal(t, during, resources(t))
	o.unmap(t)
	requireResources(t, before)
	require.NoError(t, o.mem.Free())
}

// Descriptors of failed commands are not left open.
func TestKernelFailuresLeaveNothingOpen(t *testing.T) {
	d := newLink(t)
	newKernelObjects(t, d).close(t)
	files := openFiles(t)
	f, err := d.Open()
	require.NoError(t, err)
	_, err = NewContext(f, DriverMLX5, nil, nil)
	require.Error(t, err)
	require.NoError(t, f.Close())

	f, err = d.Open()
	require.NoError(t, err)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	_, err = c.CreateCQ(CreateCQ{Entries: 16, Vector: 1 << 20, Out: make([]byte, 16)})
	require.Error(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, files, openFiles(t))
}
