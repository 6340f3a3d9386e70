package softnic

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// readOnlyPage maps a page that may not be written.
func readOnlyPage(t *testing.T) uint64 {
	b, err := unix.Mmap(-1, 0, pageSize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return hostmem.AddrOf(b)
}

// memfd makes a file in memory, in place of a dma-buf.
func memfd(t *testing.T, content []byte) int {
	fd, err := unix.MemfdCreate("dmabuf", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	n, err := unix.Write(fd, content)
	require.NoError(t, err)
	require.Len(t, content, n)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}
