package region_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// The kernel's mlx5 driver needs a card that takes page lists from entries of work queues.
// This one does not, and says so.
func TestKernelDmabufRefused(t *testing.T) {
	mlx5test.NeedKernel(t)
	h := mlx5test.NewHost(t, softnic.Config{})
	dev, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the kernel has no udmabuf")
	}
	require.NoError(t, err)
	defer dev.Close()
	memory, err := unix.MemfdCreate("dma-buf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer unix.Close(memory)
	require.NoError(t, unix.Ftruncate(memory, 1<<16))
	_, err = unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	require.NoError(t, err)
	// linux/udmabuf.h: struct udmabuf_create, UDMABUF_CREATE.
	create := struct {
		memfd, flags uint32
		offset, size uint64
	}{memfd: uint32(memory), flags: 1, size: 1 << 16}
	const udmabufCreate = 0x40187542
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), udmabufCreate, uintptr(unsafe.Pointer(&create)))
	require.Zero(t, errno, "%v", errno)
	defer unix.Close(int(fd))
	_, err = region.Dmabuf(h.NIC, region.RemoteReadWrite, int(fd), 0, 1<<16)
	require.ErrorIs(t, err, syscall.EINVAL)
}
