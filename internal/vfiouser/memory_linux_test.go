package vfiouser

import (
	"encoding/binary"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = 4096

func TestMemory(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, 4*page)
	_, err := ram.WriteAt([]byte("guest"), page+8)
	require.NoError(t, err)
	m := s.Memory()
	_, errno := c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, page, 0x10000, 2*page), int(ram.Fd()))
	require.Zero(t, errno)

	p := make([]byte, 5)
	require.NoError(t, m.Read(0x10008, p))
	require.Equal(t, "guest", string(p))
	require.NoError(t, m.Write(0x10000, []byte("device")))
	got := make([]byte, 6)
	_, err = ram.ReadAt(got, page)
	require.NoError(t, err)
	require.Equal(t, "device", string(got))

	require.True(t, m.Store32(0x10010, 5))
	v, ok := m.Load32(0x10010)
	require.True(t, ok)
	require.Equal(t, uint32(5), v)
	old, ok := m.Add64(0x10018, 3)
	require.True(t, ok)
	require.Zero(t, old)
	old, ok = m.CompareSwap64(0x10018, 3, 9)
	require.True(t, ok)
	require.Equal(t, uint64(3), old)
	old, ok = m.CompareSwap64(0x10018, 3, 1)
	require.True(t, ok)
	require.Equal(t, uint64(9), old)
	var word [8]byte
	_, err = ram.ReadAt(word[:], page+0x18)
	require.NoError(t, err)
	require.Equal(t, uint64(9), binary.NativeEndian.Uint64(word[:]))

	require.True(t, m.Pin(0x10000, 2*page, true))
	reply, errno := c.call(cmdDMAUnmap, unmapBody(0, 0x10000, 2*page))
	require.Zero(t, errno)
	require.Equal(t, unmapBody(0, 0x10000, 2*page), reply)
	require.ErrorIs(t, m.Read(0x10000, p), syscall.EFAULT)
}

// An access may go over the border of two mappings that touch.
func TestMemoryAcrossMappings(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, 2*page)
	fd := int(ram.Fd())
	_, errno := c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, 0, page, page), fd)
	require.Zero(t, errno)
	_, errno = c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, page, 0, page), fd)
	require.Zero(t, errno)
	m := s.Memory()
	require.NoError(t, m.Write(page-2, []byte("abcd")))
	p := make([]byte, 4)
	require.NoError(t, m.Read(page-2, p))
	require.Equal(t, "abcd", string(p))
	got := make([]byte, 2)
	_, err := ram.ReadAt(got, 2*page-2)
	require.NoError(t, err)
	require.Equal(t, "ab", string(got))
	require.True(t, m.Pin(0, 2*page, true))
	require.False(t, m.Pin(0, 2*page+1, true))
}

func TestMemoryRefused(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, 4*page)
	fd := int(ram.Fd())
	_, errno := c.call(cmdDMAMap, mapBody(dmaRead, 0, 0x10000, page), fd)
	require.Zero(t, errno)
	_, errno = c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, 0, 0x20000, page))
	require.Zero(t, errno, "without a descriptor")
	_, errno = c.call(cmdDMAMap, mapBody(dmaWrite, 0, 0x30000, page), fd)
	require.Zero(t, errno)

	for name, v := range map[string]struct {
		body  []byte
		errno syscall.Errno
	}{
		"overlaps from below":   {mapBody(dmaRead, 0, 0xf000, 2*page), syscall.EEXIST},
		"overlaps from above":   {mapBody(dmaRead, 0, 0x10800, page), syscall.EEXIST},
		"empty":                 {mapBody(dmaRead, 0, 0x40000, 0), syscall.EINVAL},
		"wraps around":          {mapBody(dmaRead, 0, 1<<64-page, 2*page), syscall.EINVAL},
		"unknown flag":          {mapBody(1<<2, 0, 0x40000, page), syscall.EINVAL},
		"behind the file's end": {mapBody(dmaRead, 0, 0x40000, 5*page), syscall.EINVAL},
		"offset wraps around":   {mapBody(dmaRead, 1<<64-page, 0x40000, 2*page), syscall.EINVAL},
		"short":                 {mapBody(dmaRead, 0, 0x40000, page)[:24], syscall.EINVAL},
	} {
		_, errno := c.call(cmdDMAMap, v.body, fd)
		require.Equal(t, v.errno, errno, name)
	}
	_, errno = c.call(cmdDMAMap, mapBody(dmaRead, 0, 0x40000, page), eventfd(t))
	require.Equal(t, syscall.EINVAL, errno, "no file")
	_, errno = c.call(cmdDMAMap, mapBody(dmaRead, 0, 0x40000, page), fd, fd)
	require.Equal(t, syscall.EINVAL, errno, "two descriptors")
	for name, body := range map[string][]byte{
		"part":         unmapBody(0, 0x10000, 1024),
		"empty":        unmapBody(0, 0x10000, 0),
		"wraps around": unmapBody(0, 1<<64-page, 2*page),
		"flag":         unmapBody(1, 0x10000, page),
		"all, and one": unmapBody(unmapAll, 0x10000, page),
	} {
		_, errno := c.call(cmdDMAUnmap, body)
		require.Equal(t, syscall.EINVAL, errno, name)
	}
	_, errno = c.call(cmdDMAUnmap, unmapBody(0, 0x90000, page))
	require.Zero(t, errno, "nothing there")

	m := s.Memory()
	p := make([]byte, 8)
	for name, addr := range map[string]uint64{
		"not shared": 0x8000, "without a descriptor": 0x20000, "runs over the end": 0x10ffc,
		"wraps around": 1<<64 - 4, "only to be written": 0x30000,
	} {
		require.ErrorIs(t, m.Read(addr, p), syscall.EFAULT, name)
	}
	require.ErrorIs(t, m.Write(0x10000, p), syscall.EFAULT, "only to be read")
	require.NoError(t, m.Write(0x30000, p))
	require.False(t, m.Store32(0x10000, 1), "only to be read")
	for _, addr := range []uint64{0x10002, 0x10ffe, 0x20000, 1<<64 - 4} {
		_, ok := m.Load32(addr)
		require.False(t, ok, "%#x", addr)
	}
	_, ok := m.Add64(0x30004, 1)
	require.False(t, ok, "not aligned")
	require.True(t, m.Pin(0x10000, page, false))
	require.False(t, m.Pin(0x10000, page, true))
	require.False(t, m.Pin(1<<64-4, 8, false))

	_, errno = c.call(cmdDMAUnmap, unmapBody(unmapAll, 0, 0))
	require.Zero(t, errno)
	require.ErrorIs(t, m.Read(0x10000, p), syscall.EFAULT)
}

// What is mapped in all has a limit, also where one file is mapped again and again.
func TestMemoryLimit(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, page)
	require.NoError(t, ram.Truncate(maxMapped/2+page)) // a file with a hole
	fd := int(ram.Fd())
	add := func(at, size uint64) syscall.Errno {
		_, errno := c.call(cmdDMAMap, mapBody(dmaRead, 0, at, size), fd)
		return errno
	}
	require.Zero(t, add(0, maxMapped/2))
	require.Equal(t, syscall.ENOSPC, add(maxMapped, maxMapped/2+page))
	require.Zero(t, add(maxMapped, maxMapped/2))
	require.Equal(t, syscall.ENOSPC, add(4*maxMapped, page))
	_, errno := c.call(cmdDMAUnmap, unmapBody(0, 0, maxMapped/2))
	require.Zero(t, errno)
	require.Zero(t, add(4*maxMapped, page))
	_, errno = c.call(cmdDMAUnmap, unmapBody(unmapAll, 0, 0))
	require.Zero(t, errno)
	require.Zero(t, s.Memory().mapped)
}

// A client that truncates its memory makes accesses fail, not the process.
func TestMemoryTruncated(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, 2*page)
	_, errno := c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, 0, 0, 2*page), int(ram.Fd()))
	require.Zero(t, errno)
	require.NoError(t, ram.Truncate(page))
	m := s.Memory()
	require.ErrorIs(t, m.Read(page, make([]byte, 8)), syscall.EFAULT)
	require.ErrorIs(t, m.Write(page, make([]byte, 8)), syscall.EFAULT)
	_, ok := m.Load32(page)
	require.False(t, ok)
	_, ok = m.Add64(page, 1)
	require.False(t, ok)
	require.NoError(t, m.Write(0, make([]byte, 8)))
}

// Memory that comes and goes while the device uses it is used or it is not.
func TestMemoryWithdrawnInUse(t *testing.T) {
	s, c, _, _ := agreed(t)
	ram := guestRAM(t, page)
	stop := make(chan struct{})
	var users sync.WaitGroup
	for range 2 {
		users.Go(func() {
			p := make([]byte, 64)
			for {
				select {
				case <-stop:
					return
				default:
					_ = s.Memory().Read(0, p)
					_ = s.Memory().Write(0, p)
				}
			}
		})
	}
	for range 20 {
		_, errno := c.call(cmdDMAMap, mapBody(dmaRead|dmaWrite, 0, 0, page), int(ram.Fd()))
		require.Zero(t, errno)
		_, errno = c.call(cmdDMAUnmap, unmapBody(0, 0, page))
		require.Zero(t, errno)
	}
	close(stop)
	users.Wait()
}

func TestMemoryEndsWithTheClient(t *testing.T) {
	s, c, _, wait := agreed(t)
	ram := guestRAM(t, page)
	_, errno := c.call(cmdDMAMap, mapBody(dmaRead, 0, 0, page), int(ram.Fd()))
	require.Zero(t, errno)
	require.NoError(t, wait())
	require.ErrorIs(t, s.Memory().Read(0, make([]byte, 1)), syscall.EFAULT)
}
