//go:build amd64 || arm64

package rdma

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/softnic"
)

// One Write of more than 4 GiB arrives whole: no length and no count on its way has 32 bits.
func TestWriteBeyond32Bits(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("it takes seconds")
	case raceEnabled:
		t.Skip("it takes a minute under the race detector, and has one writer and one reader")
	case kernelDevice() != "":
		t.Skip("it is too much for an emulated machine")
	}
	const window, n = 4 << 20, 4<<30 + 4<<20
	pattern := make([]byte, window)
	rand.NewChaCha8([32]byte{5}).Read(pattern)
	a, b := inMemory(t, softnic.Config{}).pair(t)
	all := repeated(t, pattern, n)
	wrote := make(chan error, 1)
	go func() {
		m, err := a.Write(all)
		if err == nil && m != n {
			err = io.ErrShortWrite
		}
		wrote <- err
	}()
	got := make([]byte, 1<<20)
	for at := 0; at < n; at += len(got) {
		_, err := io.ReadFull(b, got)
		require.NoError(t, err, "at %d", at)
		require.True(t, bytes.Equal(pattern[at%window:][:len(got)], got), "at %d", at)
	}
	require.NoError(t, <-wrote)
	require.Equal(t, uint64(n), a.Stats().BytesSent)
	require.Equal(t, uint64(n), b.Stats().BytesReceived)
	require.NoError(t, a.Close())
	_, err := b.Read(got)
	require.Equal(t, io.EOF, err, "nothing more")
}

// repeated is n bytes of addresses at which the same memory, with the pattern in it, shows
// again and again.
func repeated(t *testing.T, pattern []byte, n int) []byte {
	fd, err := unix.MemfdCreate("pattern", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.Write(fd, pattern)
	require.NoError(t, err)
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.MunmapPtr(base, uintptr(n))) })
	for at := 0; at < n; at += len(pattern) {
		_, err := unix.MmapPtr(fd, 0, unsafe.Add(base, at), uintptr(len(pattern)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
		require.NoError(t, err)
	}
	return hostmem.View(uint64(uintptr(base)), n)
}
